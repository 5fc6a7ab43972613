"""Decides the next steps for one store and its status. Pure: an `Observation` in, steps out.

`model` has the types: the observation (the resource, the pods, their reports), the steps and the
status. A round of `qss_operator.reconcile` calls `plan`, carries out its steps, and publishes the
status that `status` makes of the same observation.

1. `scaling` computes how many pods run: those of the spec, and pods that still have data or
   may have some by the configurations on the volumes of other pods.
2. `assignment_state` finds the assignment that holds: it compares the published status with
   `disk_claims`, the configurations on the pods' volumes. For a new store `placement` chooses the
   pods of each partition, and its active.
3. `membership` makes the next configuration of a partition that has to change: after a failure,
   for a move, for a new standby. A move goes to the pods that `placement` chooses for the present
   spec. `membership` also chooses the next pod to restart, and replicas to delete.
4. `formats` decides the format of the rows, and `losses` reads the losses that a person accepted.
   `fullest_learner` finds a learner that may go on after a loss. `missing_data` finds pods whose
   volumes lack data: they get no assignment.
5. `plan` puts the steps in order. The number of pods comes first. If the assignment is new, it is
   written into the status, else replicas are deleted and a pod is restarted. Then each pod gets the
   assignment, and accepted losses come last. No pod gets an assignment that is not published.

`status` makes the conditions of the store from `findings`: why pods and partitions do not serve,
and what of the spec is not carried out. `annotations` reads the annotations of the store, and has
the texts that tell a person how to set them.
"""
