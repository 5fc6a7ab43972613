"""Plans requests: the keys, times or index rows of a partition, in bytes. Pure.

`dispatch` makes the plan of an IQv2 query, by the type of the store; `keys`, `times`, `versions`
and `indexes` have the plans.
"""
