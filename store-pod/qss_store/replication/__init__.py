"""The changelog of a partition: its entries and the pure rules by which it grows and is cut."""
