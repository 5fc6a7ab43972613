"""The internal port, for writers, other pods and the operator (`/changelog`, `/control`).

1. `app.make_internal_app` makes the handlers and adds the table of `routes` to the application. A
   route says which kind of caller may use it: writer, pod or operator. `test_rights` checks that
   the first word of each path says the same.
2. The middlewares come in this order: metrics and problem documents, memory, browsers, and the
   caller's token and right. Then the handler runs.
3. `handlers` has the handlers: it reads the body within its limits, decodes the message of
   `qss_core.wire`, calls one method of a service of `writes` or of the pod, and encodes the answer.
   `replication` does the same for the messages between replicas, which are MessagePack.
4. `coordinator_proxy` wraps the routes that only the coordinator answers (open, commit, abort,
   renew, writers): a pod without the active of partition 0 passes the request on to the pod that
   has it, once.
5. `writers` lists and deletes writers for a person; `qss writers` asks it.

`kept_work` lets assignments, retirements, acceptances and snapshots end where their client goes.

No rule of batches lives here: a refusal comes from the services as a `StoreError`, and the
middleware makes a problem document of it. A writer's request names the store id, so that a query of
a deleted store writes nothing into its namesake. Bodies count in the pod's memory for requests.

The discovery and the OpenAPI document of the query port are served here, too, so this package is
above `http.query`. Nothing but `__main__` and tests imports it. Tests:
`tests/integration/writes` and, of `replicas`, `test_replication_bad_input`.
"""
