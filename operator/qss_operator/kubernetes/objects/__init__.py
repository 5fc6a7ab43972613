"""The objects of a store: its StatefulSet, Services, accounts, claims and policies.

`children` and `pod_template` make the objects from the spec, and `children_apply` applies them
where they differ. `pod_template_age` tells pods of an older template, which the planner has
restarted, and `volumes` plans how claims grow. `deletion` removes a store: pods, volumes if the
policy says so, then the resource.

`pod_failure` finds the reason why a pod does not run or answer, `missing_pods` reports pods that
are missing or wait too long, and `nodes` reads the zones of nodes.
"""
