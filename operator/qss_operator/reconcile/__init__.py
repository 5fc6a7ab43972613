"""Runs the rounds of one store: observes, lets `planning` decide, acts, and publishes the status.

`reconciler` has the round. `pod_reports` asks all pods for their reports at the same time, and says
why a pod did not answer. The plan of `qss_operator.planning` is a list of steps; the round carries
them out in their order:

1. `attempts` does the work of a step when it is due, and keeps a refusal: refused work is repeated
   after a pause (`qss_operator.backoff`), and the status tells it.
2. `assignment_sender` sends pods their assignments. A pod that is busy with one is sent the next
   one meanwhile, and no round waits for it.
3. At the end of a round `condition_teller` tells the pods the published conditions, which they only
   show to their readers.

A round that is cut short is planned again from the next observation. The package knows neither
Kubernetes nor local processes: it acts through the ports of `qss_operator.ports`.
"""
