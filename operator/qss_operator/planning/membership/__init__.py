"""Changes the configurations of partitions: their epochs, actives, in-sync sets and replicas. Pure.

`assignment_state` calls `epochs.next_configurations` with the configurations that hold:

1. `restarts` chooses the next pod to restart. `restart_steps` has its actives leave it first, then
   it leaves the in-sync sets.
2. `epochs` makes the first change that a partition needs: a loss that a person accepted, a
   successor of an active that cannot act (`failover`), the end of a standby that is silent, has no
   data, or restarts next, an epoch for an active that started again, a learner that has caught up.
   Before most of these, a pod that is being ended (`handover`) hands over its actives, and then
   leaves the in-sync sets. `standby_state` says which standby may become the active.
3. Partitions without such a change move one step towards the pods that the spec, a restart or a
   person (`pins`) wants (`moves`): a learner joins, the active is handed over, a replica leaves.
   Partitions whose replicas have other rows stay (`unlike_replicas`). Pods that were silent for
   long get nothing: other pods get copies of the replicas that the silent pods had, or have no
   room for (`replacement`). These steps wait where others were published less than a second ago.
   So does the join of a learner while its partition has all its replicas in sync.

A partition changes at most once in a round, by one epoch. The change is published before any pod
hears of it. Nothing is remembered between rounds: a surplus of replicas says that a move is under
way.

`planning.plan` calls the rest: `restarts` for the pod to restart, and `retirements` for replicas
that no configuration names. `changes` lists the changes of a published assignment, for the metrics
and the events.

`findings` and `status` import these modules; `model`, `placement`, `scaling` and `losses` are
below. Tests (unit): `test_membership`, `test_moves`, `test_restarts`, `test_changes`, `test_plan`.
"""
