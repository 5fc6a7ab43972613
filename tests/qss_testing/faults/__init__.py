"""What goes wrong on purpose: disks, networks, volumes, slow readers, and mends taken back."""
