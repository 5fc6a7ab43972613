"""Reaches a store of a Kubernetes cluster by its name, NAMESPACE/STORE.

1. `connection.store_on_kubernetes` (for programs) and `connection.connection_to` (for `qss`) parse
   the name. In a pod, without a named context, they use the URL of the store's Service, and no
   kubectl.
2. Elsewhere `kubectl` reads the store's resource, to know whether the store checks callers and has
   a certificate. Then it forwards a port of this machine to the store's Service, and requests
   tokens of a service account, each for ten minutes and renewed after five.
3. `child_processes` starts kubectl such that the kernel ends it when its parent ends, also by a
   kill. The kernel does that when the *thread* ends which started the process: so one thread of
   `kubectl` starts the process, reads its output and lives as long as it does.
4. `connection` gives `ConnectionOptions` to the caller, which makes a `Store` or a `SyncHttp` of
   them. They are valid inside the `with` block: its end ends the forwarding.

A forwarded port reaches one pod, so the client is not `direct`: that pod asks the others. The
certificate has the Service's name and not the loopback address; `server_hostname` carries it.

kubectl acts with the rights of the user. A failure of it is a `KubectlError` with kubectl's last
line, a slow kubectl is `UnreachableError`. Only `cli` imports this package inside the client;
Spark's demo uses `child_processes`. Tests: `tests/unit/qss_client/kube/test_kubectl.py`, with a
script in the place of kubectl.
"""
