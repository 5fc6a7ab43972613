"""Kafka's serdes, byte for byte, and `json`, which Kafka does not have. Pure.

1. `registry.serde_of` finds a serde by its name in a store's definition, such as `int64` or
   `list<string>`. It is the only door: programs hold a `Serde` and know no class of one.
2. `contract` has the protocol. A serde converts between four forms of a value: stored bytes, a
   Python value, JSON of requests and answers, and the text of a key in a path.
3. `scalars` (bytes, string, boolean, uuid), `numbers`, `lists` and `json` implement it. `lists`
   wraps the serde of its items, and asks it for `item_bytes`, since Kafka stores items of a fixed
   size without lengths.

A row keeps the bytes of the serde, so a reader with Kafka's own serde reads the same value. Bytes
of another type raise `MalformedBytesError`: then the stored row or the writer is wrong. Values,
JSON and texts that the type lacks raise `MalformedRequestError`: then the caller is wrong.

Answers copy `json_bytes` without parsing them again: so it has to be one line of valid JSON. The
json serde stores the writer's text unchanged: numbers beyond Python's limits are kept. JSON has no
NaN and no infinity, so floats show them as strings. Order of keys is the order of bytes: negative
integers come after positive ones in scans, as in Kafka.

Serdes know `errors`, `text` and nothing else of the core. The pod's `reads` and `writes`, the
client's requests and Spark's rows use them. Tests: `tests/unit/qss_core/serdes`, and
`tests/contract/test_kafka_vectors.py` with bytes that Kafka made.
"""
