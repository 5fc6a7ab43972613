"""The control plane: observes stores and pods, plans one safe step at a time, publishes status.

`reconcile` runs a round of one store. It observes the resource, the pods and their disks through
the ports of `ports`, lets `planning` decide, carries out the steps one by one, and publishes the
status. A round that is cut short is planned again from the next observation. `backoff` delays the
repetition of a failed step.

Two adapters implement the ports. `kubernetes` is the operator: objects of the API server, pods in
StatefulSets. `local` is a cluster on one machine: child processes, and files for the resource and
its status. Both ask pods for their replicas and send assignments by `http_pods`; `pod_answers`
reads the pods' answers within limits. `resources` reads and checks resources as text.

`__main__` starts the operator. `commands` has the commands that need the control plane: those of
`qss` for a cluster of this machine, and `kubectl qss status`. `times` writes times as Kubernetes
does; `errors` and `metrics` serve all of them.
"""
