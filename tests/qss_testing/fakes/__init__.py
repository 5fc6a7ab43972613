"""Fakes of clocks, event loops, API servers, clusters and pods, in memory.

Time: `virtual_time` has `SetClock`, the clock of one class or service, which the test sets, and
event loops whose time needs no waiting. `one_thread_loop` is an event loop that runs the work of
threads in a fixed order.

Kubernetes: `toy_objects` keeps objects as the API server does, `toy_api_server` serves them over
real HTTP and fails on demand, `watched_api_server` adds the watches that kopf needs, and
`toy_cluster` adds controllers and kubelets, so that the operator runs against it. `reviewer` is an
API server that only reviews tokens and rights.

Pods: `control_world` has the resource, pods and disks of a store as values, for the reconciler, and
`simulated_pod` is one of its pods, whose disk outlives its process. `fake_pod` is a process with
the control API alone, `scripted_pods` a transport that plays the other pods of a store, and
`strange_pods` are servers that hang, break off or send nonsense.
"""
