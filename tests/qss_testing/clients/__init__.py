"""What asks stores: HTTP by hand, both clients, `qss`, and the fuzz of the fast path."""
