"""The model, formats, serdes and messages that pods, clients, the operator and Spark share. Pure.

`model` has the values of the system: stores, partitions, replicas and their configuration. `spec`
is the spec of a QueryableStateStore, with `quantities` for durations and sizes and `times` for
times in texts. `errors` has every expected failure with its code, HTTP status and next step.

A row begins as a key and a value of a user. `serdes` encodes both as Kafka does, `partitioning`
computes the partition of the key, and `formats` encodes the row that a replica stores, and the row
key of a window, a session or a version. `keys` orders row keys, `varint` and `text` are encodings
that several modules need. `positions` tells how far a job has read its inputs; every commit and
every answer has one.

`wire` has the messages between writers, pods and the operator, `queries` the requests and answers
of readers. `audiences` names the audience of a store's tokens, `version` this version of the code,
and `early_stop` ends a program that has not begun.

Nothing here does I/O, reads a clock or knows a program above it.
"""
