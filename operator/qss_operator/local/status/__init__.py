"""The published status for people.

`view` formats it for `qss status`, `summary` leaves out the list of partitions.
"""
