"""What a request asks of a partition, in bytes: which keys, which times, which index rows. Pure.

`dispatch` makes the plan of an IQv2 query, by the type of the store; `keys`, `times`,
`versions` and `indexes` hold the plans.
"""
