"""Kafka's serdes, byte for byte: `registry` finds one by name, `contract` says what each can do,
`scalars`, `numbers`, `lists` and `json` implement them.
"""
