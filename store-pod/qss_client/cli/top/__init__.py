"""The command `qss top`: what a store does now, redrawn every two seconds.

1. `sampling` asks each pod for the lags of its replicas (the public API), or behind a forwarded
   port one pod for the status of all pods, which has their reads, too. It asks for metrics where
   their address is known: on the local cluster from the file of its ports, else from the option
   --metrics-url. Without metrics it asks for the newest batches. A pod that gives no answer is in
   the sample with the reason.
2. `metrics_text` reads the text of Prometheus as far as `top` needs it.
3. `rates` makes the shown numbers of two samples: rates are differences of counters by the time
   between them, and the latency is that of the requests between them. A counter that went back
   belongs to a pod that has restarted, and counts from 0.
4. `screen` makes the lines; `command` redraws them on a terminal, and prints them one below the
   other elsewhere, so that a file has all of them.

A rate that no pod tells is `-` and never 0: a pod without metrics is no idle pod.

`rates`, `metrics_text` and `screen` are pure. The requests of `top` itself are not counted. Tests:
`tests/unit/qss_client/cli/top`, and `tests/integration/qss/test_qss_top.py` with real pods.
"""
