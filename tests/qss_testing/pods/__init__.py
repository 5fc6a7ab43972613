"""Real pods: in this process, as processes, or one replica alone.

In this process, which takes milliseconds: `stores` for readers (rows are written past the
protocol), `timed_stores` the same for windows and sessions, `write_cluster` for writers over the
internal port, `one_pod` for a pod whose process ends at a chosen write, `one_replica` for a
replica without a pod.

As processes: `pod_process` has pods that a test kills, each with its own volume and output.
`pod_forge` forks them from a process that has imported the pod's program, so that a start is
quick. `guarded` has such pods that check tokens, with `certificates` for TLS.

`own_store_pods` has pods with the custom store type of the guides, which `extension_package`
installs from the text of these guides.

`ports` gives ports that stay free, so that a restarted pod has its old address.
"""
