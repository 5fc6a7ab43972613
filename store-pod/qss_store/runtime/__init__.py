"""The process of a pod: settings, log, metrics and limits, for any store.

`command_line` reads the arguments and the environment into `settings`; every limit of the pod is a
member of `Settings` with a name and a default. All code reads the time from `qss_client.clock`, so
that tests set it. All work that leaves the event loop goes through `blocking`. `metrics` holds the
metrics for Prometheus, `log_format` writes the log without keys and values. `loop_monitor` decides
how often the pod checks its event loop for stalls; `writes.sweeper` measures them. `request_memory`
counts the bytes of requests and answers over the whole pod. `heavy_turns` lets work that holds the
event loop take turns. `peer_client` sends JSON messages to other pods. `plugins` finds a user's own
query types and store types among the installed packages. `process` sets up the memory, the files
and the libraries of this process.

No module here imports another package of `qss_store`.
"""
