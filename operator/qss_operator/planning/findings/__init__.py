"""Words the state of a store, for the conditions of its status. Pure.

`planning.status` calls the modules with the observation of the round, and makes the conditions.
`conditions` finds whether the store is Ready, Progressing and Degraded, by the others:

1. `served_partitions` lists the partitions whose active serves them in the configuration that
   holds, and counts the partitions that only answer reads.
2. `obstacles` says why the others do not serve: pods that do not run or answer, failed replicas,
   refused assignments, indexes that are made anew.
3. `full_volumes` names volumes with too little free space, `deleted_volumes` volumes that go with
   their pods, and `wishes` the parts of the spec or the annotations that are not carried out. All
   may make a store Degraded.
4. `rebalancing` says which replicas move between pods, which moves wait, and why; also which
   replicas that were left are not deleted yet.
5. `evictions` says whether a pod may be evicted; `kubernetes.objects` asks it.
6. `columns` makes the counts that `kubectl get qss` shows.
7. `shortage` counts partitions that lack replicas; `reconcile` keeps it for the metrics.

Nothing is decided here: `planning.plan` does not import this package. `rebalancing` asks the same
functions of `membership` as the planner, so its message and the steps agree. `served_partitions`
goes by the published status: no pod has heard yet of a configuration that is new in this round, so
a partition that served before counts as served.

The reasons are constants beside their messages: `reconcile`, `kubernetes.objects` and `local.run`
compare them. Each new text is a write of the status, so texts change rarely: `rebalancing` names
five moves at most, and copied shares in tenths.

Tests: `test_columns`, `test_status`, `test_full_volumes`, `test_deleted_volumes`, `test_moves`,
`test_rebalancing` and `test_shortage` in `tests/unit/qss_operator/planning`.
"""
