"""Runs the operator on Kubernetes: the ports of `reconcile`, over one thin client of the API.

`program` is the process. It reads `settings` and waits until it holds the Lease (`leadership`).
While it holds the Lease, it acts:

1. `watches` starts a kopf watch for each watched namespace (`kopf_watch`), and starts it again
   after its end.
2. `stores` gets the changes from the watches, and has one `store_loop` for each store. A change
   wakes the loop of its store. A watch only says that something changed: the loop reads the
   objects from the API server.
3. The loop waits until `rounds` lets it run one: rounds are limited in total and by namespace.
4. A round reads the resource (`status_writer`) and the pods (`cluster`) through `api.read_cache`. A
   resource that is being deleted goes to `objects.deletion`. For any other the reconciler lets
   `planning` decide, applies the children (`objects`: StatefulSet, Services, claims), and sends
   assignments to the pods with the tokens and certificates of `access`.
5. `status_writer` writes the new status, and `events` posts an event for each condition that
   changed. If the round fails, `failure_status` makes the status from the error.

`names` has the names and labels of children. `api` sends the requests: typed errors, deadlines, and
retries where they are safe. When the Lease is lost, the process ends at once, without another
write.
"""
