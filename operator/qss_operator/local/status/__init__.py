"""The published status for people.

`view` formats it for `qss status`, `summary` leaves out the list of partitions, and `watch` shows
it again after each change.
"""
