"""Messages between pods, writers and the operator.

`messages` has most of them and the one way to encode and decode, `losses` those about lost
batches, `replica_reports` and `writer_reports` what a pod tells the operator and a person,
`chunk_ids` the ids of staged chunks. `bodies` reads JSON strictly.
"""
