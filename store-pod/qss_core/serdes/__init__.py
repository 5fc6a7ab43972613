"""Kafka's serdes, byte for byte, and `json`, which Kafka does not have.

`registry` finds a serde by its name in a store's definition. `contract` has the protocol of serdes
and their errors: a serde converts between bytes, Python values and the JSON of answers.
`scalars`, `numbers`, `lists` and `json` implement it.

A row keeps the bytes of the serde, so a reader with Kafka's own serde reads the same value.
"""
