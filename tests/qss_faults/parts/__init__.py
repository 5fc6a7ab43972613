"""The processes, links, disks and files of the store that is struck.

1. `__main__` enters `namespaces`: the command starts itself again with a network and mounts of its
   own. This needs root. Without it the run goes on with plain directories and no links.
2. `machines` makes the rest by the plan of the seed: `network` makes a host for each pod and for
   the operator, on one bridge, and `volumes` mounts a small disk for each pod.
3. `processes` runs the pods and `operator_program` inside these hosts, and starts each again that
   has ended, unless a strike holds it.
4. `strikes` uses the parts: it signals processes, cuts links in one direction, fills or freezes
   disks, has `damage` change files of a pod that does not run, and has the operator kill itself at
   a step.

Nothing outlives the command, however it ends: namespaces end with their last process, and the
kernel kills all children with the thread of `processes` that started them. So no part cleans up by
name, and nothing may start a process elsewhere. Processes end before their disks and links do.

`operator_program` runs the product's rounds over the state directory of `qss up`, but starts no
pods: the end of the operator is the end of no pod, as on Kubernetes. A cut link loses packets and
tells neither end. A frozen disk lets reads go on, while writes and syncs wait.

The package imports nothing else of `qss_faults`. `test_faults_of_processes.py` in
`tests/integration/faults` runs it; `tests/docs/faults.md` explains the command.
"""
