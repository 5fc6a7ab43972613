"""Decides the next steps for one store and its status. Pure: an `Observation` in, a plan out.

`model` has the types: the observation, the steps and the status. `plan` makes the next steps;
`assignment_state` finds the assignment that holds, from the status and from `disk_claims`, the
configurations on the pods' volumes. `placement` places the replicas of a new store. `losses` reads
the losses that a person accepted, `annotations` tells a person how to set an annotation. `formats`
decides the format of the rows. `status` makes the status, with `obstacles` (why the store is not
ready), `wishes` (what the spec asks for in vain) and `full_volumes`.
"""
