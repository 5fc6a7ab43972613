"""Kafka's serdes, byte for byte.

`registry` finds a serde by its name, `contract` has the protocol of serdes; `scalars`, `numbers`,
`lists` and `json` implement it.
"""
