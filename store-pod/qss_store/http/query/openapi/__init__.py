"""The OpenAPI 3.1 document of the query port, as `GET /openapi.json` answers it.

1. `document.make_document` walks the routes of the port. Each route has an `Operation`: summary,
   parameters, body, answers and statuses. A route of this port without one fails `test_openapi`.
2. Parameters come from the tables of `qss_core.queries`, which requests are checked against: so the
   document and the checks cannot differ there.
3. `schemas` makes the schemas of bodies from the structs that handlers encode and decode, and adds
   what structs do not say: the lines of streams, and members that depend on the store's serde.
4. `plain_schemas` rewrites them for client generators, with the same meaning: msgspec writes JSON
   Schema that few generators understand.
5. `document.DocumentApi` makes and encodes the document once, in 3 ms, for the first request. Both
   ports serve it. So a pod's start does not wait for it.

A new route or body is described by its `Operation` in `http.query.routes`, and a new struct has to
be listed in `schemas`. The document says nothing of one store: it is equal for all pods of one
version.

The package does no I/O, and is below `http.query.routes`. Tests compare it with the pods:
`test_openapi` (every operation), `test_openapi_fuzz` (random requests) and `test_openapi_clients`
(generated clients), all in `tests/integration/http`.
"""
