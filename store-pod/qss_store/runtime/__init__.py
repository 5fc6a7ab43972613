"""The process of a pod: settings, log, metrics and limits, for any store.

At a start `__main__` calls these modules in this order. `process` checks the libraries.
`command_line` reads the arguments, and `log_format` keeps keys and values out of the log.
`command_line` reads the `settings` from the environment: every limit that a pod's owner may set is
a member of `Settings` with a name and a default (a module has the limits of its own protocol or
format as constants), and `process` divides the container's memory among the limits that are 0.
`metrics` makes the metrics for Prometheus, `peer_client` the connections to other pods,
and `plugins` finds the users' own query types and store types among the installed packages.

While the pod runs, the other packages use these modules:

* `blocking` runs in a thread all work that leaves the event loop.
* `request_memory` counts the bytes of requests and answers over the whole pod, and refuses requests
  when too many bytes are taken.
* `heavy_turns` lets work that holds the event loop take turns with the rest of the pod.
* `loop_monitor` decides how often the pod checks its event loop for stalls; `writes.sweeper`
  measures them.
* `peer_client` sends a message to another pod, and returns the answer or a typed error; by
  `peer_download` a thread reads an answer that is too large for the event loop.
* `background_threads` makes threads that give way to the event loop; copies are read and written
  by them.

Code that decides by the time reads it from `qss_client.clock`, so that tests set it. Code that
measures an answer or a connection of HTTP reads the event loop's time. No module here imports
another package of `qss_store`.
"""
