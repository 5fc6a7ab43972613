"""Faults: disks, networks, volumes, slow readers, and fixes that are taken out again."""
