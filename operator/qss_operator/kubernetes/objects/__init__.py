"""The objects of a store: its StatefulSet, Services, accounts, claims and policies.

Each round of a store passes its resource here, with the objects that the API server has:

1. `children` makes the objects as the spec wants them, and `pod_template` the template of the
   pods for the StatefulSet.
2. `children_apply` applies the objects that differ from the API server's. A round that was cut
   short is completed by the next round.
3. `pod_template_age` finds pods that were made of an older template. The StatefulSet restarts no
   pod by itself: `planning.membership.restarts` chooses one pod after the other, and
   `children_apply` deletes it.
4. `volumes` plans how claims grow. A StatefulSet cannot change its template of claims, so
   `children_apply` patches the claims, and makes the set again without ending its pods.

The other modules observe. `pod_failure` finds, in a pod's status, the reason why the pod does not
run. `missing_pods` reads the events of the StatefulSet for pods that are missing. `nodes` reads the
zones of nodes, by which the planner spreads replicas, and which nodes are cordoned. `pod_image`
reads the version of a pod. `pod_ip` says where a pod is reached while its process runs.

`deletion` removes a store: its pods, its volumes if the policy says so, then the finalizer of the
resource.
"""
