"""The commands of `qss` and `kubectl qss` that need the control plane.

1. `local` has `qss up`, `qss down` and `qss status`: they start, end and show the cluster of this
   machine, whose code is in `qss_operator.local`.
2. `stores` has the commands that change one store of that cluster: `qss scale`, `standbys`,
   `apply`, `move`, `restart`, `kill` and `freeze`. `qss up` takes them from the state directory.
3. `kubectl` has `kubectl qss status`, which reads the published status of stores on Kubernetes;
   `logs` prints the logs of a store's pods, and `report` writes an archive for whoever helps.

The client finds them by entry points (`qss.commands` and `qss.kubectl` in pyproject.toml), since it
does not know the operator: without the operator's package a command says what to install. A
command checks its arguments, calls one function of another package, and prints; decisions are
not made here. Errors are those of `qss_operator.errors` and `qss_core.errors`, and the client's
program turns them into a sentence and an exit code.

Tests: `tests/integration/qss/test_qss_commands.py` and `test_kubectl_qss.py`, with real pods.
"""
