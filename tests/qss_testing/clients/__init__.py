"""Clients of stores: plain HTTP, both Python clients, `qss`, and the fuzz of the fast path."""
