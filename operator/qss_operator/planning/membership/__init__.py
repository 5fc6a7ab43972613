"""Changes the configurations of partitions: their epochs, and who is in sync.

`epochs` makes the next epoch of a partition whose active, or a person, asks for one. A change takes
one epoch, and is published before any pod hears of it.
"""
