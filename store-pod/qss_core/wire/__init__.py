"""Messages between pods, writers and the operator.

`messages` encodes and decodes all messages, and has most of their types. `losses` has the messages
about lost batches, `replica_reports` the reports of pods to the operator, `writer_reports` the
reports on writers that a person reads. `chunk_ids` encodes the ids of staged chunks. `bodies`
decodes JSON bodies and refuses repeated members.
"""
