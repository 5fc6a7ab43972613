"""The tokens, certificates and rights between operator, pods and API server.

Each store's loop has one `pod_access`. In a round, before the reconciler acts:

1. `store_loop` gives the present pods and the StatefulSet to `pod_access.refresh_tokens`.
   `audiences` reads from each pod's command line which token audience the pod accepts, and `tokens`
   requests a token of the operator for each audience, or renews it after 80 % of its life.
2. `pod_access.refresh` reads the Secret with the store's certificate, at most once a minute, and
   keeps the last authority while the Secret cannot be used.
3. `HttpPods` takes the header and the TLS context of each request from `pod_access`; it waits for
   nothing there. A missing token, or a Secret that was never read, ends the round before, and the
   status tells why.
4. `objects.children_apply` takes the audiences of the pods' template from `audiences`: a store of
   an older operator changes its audience in three rolling restarts.

A pod gets a token only if the store's StatefulSet controls it, and only for the audience of its
store, or for the common audience while the StatefulSet names it: a forged pod gets nothing.

`reviewers` runs once for all stores, beside the loops. It adds the accounts of stores to the
ClusterRoleBinding of reviews, as many as `review_accounts` allows. Without its place there a
store's pods answer 503 to all callers.

The package imports no `objects` and no loops. Tests: `test_audiences`, `test_pod_access`,
`test_review_accounts` (unit), `test_store_audiences` and `test_reviewers` (integration).
"""
