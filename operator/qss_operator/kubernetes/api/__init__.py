"""The operator's client of the Kubernetes API: objects are plain dicts, and failures are typed.

`program` opens one client with `client.connect`. A call goes this way:

1. `client` makes the request with a function of `requests`; `kinds` has the paths of kinds.
2. `connection` sends the request once, with its credentials. Only it imports `kubernetes`.
3. `errors` makes an error of every other answer than a success. After 401 `client` reads the
   credentials again, and sends the request a second time.
4. `retries` says after which pause a failed request is sent again, within 30 s and eight tries. A
   request that the server may have carried out is repeated only if it is `is_repeatable`: a patch
   without a version or a deletion without a uid is not.

`NotFoundError` says that the object does not exist. `KindNotServedError` is a 404 as well, and says
nothing about objects: code that deletes or creates must not take it for an absence. After
`ConflictError` read again, and decide anew: another client was first.

`client` keeps no answers. Each store loop has a `read_cache` for its store and its children: a
watch makes an answer there out of date, and is never read instead of the API server.

The other packages of `kubernetes` use this one, and it imports none of them. Tests:
`test_connection`, `test_errors`, `test_read_cache`, `test_requests`, `test_retries` (unit),
`test_kubernetes_api` (over HTTP).
"""
