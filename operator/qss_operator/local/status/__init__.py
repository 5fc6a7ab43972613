"""The published status for people: `view` as `qss status` shows it, `summary` without the long
list.
"""
