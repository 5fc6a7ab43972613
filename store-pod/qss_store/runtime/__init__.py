"""What a pod needs of its process, whatever store it serves.

`command_line` reads the arguments and the environment into `settings`; every limit of the pod is a
member of `Settings` with a name and a default. `clock` is the only way to read a time, so that
tests turn it. `blocking` is the only way by which work leaves the event loop. `metrics` holds what
Prometheus reads, `log_format` writes the log without keys and values, `loop_monitor` measures how
late the event loop runs. `request_memory` counts the bytes of requests and answers over the whole
pod. `heavy_turns` lets work that holds the event loop take turns. `peer_client` sends JSON messages
to other pods. `plugins` finds a user's own query types and store types among the installed
packages. `process` sets this process up: its memory, its files, its libraries.

No module here imports another room of `qss_store`.
"""
