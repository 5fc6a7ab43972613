"""The published status for people.

`view` formats it for `qss status`, `summary` leaves out the list of partitions, `lags` asks the
pods how far the standbys are, and `watch` shows it again after each change.
"""
