"""The pod's listeners: they parse a request, call `reads` or `writes`, and encode the answer.

`server` opens the three ports. The query port (`query`) answers readers, the internal port
(`internal`) writers, other pods and the operator, the ops port (`ops`) the kubelet and
Prometheus. `discovery` is served on the first two, and the query port has the `status` of all
pods, too. Each of the first two has a table in its `routes`: path, handler, caller, and the
operation of the OpenAPI document.

A request passes, in this order: `connection` (is there room for the connection, is the head
small enough, does the client read), `query.fast_path` for plain GETs and batch gets, and for all
others aiohttp and `middleware`: metrics, limits of requests and bodies, errors as problem
documents. `browsers` refuses web pages of other origins, and lets listed ones read answers.
`access` asks the guard (`access.token_check`) whether the caller has the route's right, and
`refusal_log` logs refusals without keys and tokens.

`path_keys` reads keys from raw paths, `content_types` chooses the answer's type by `Accept`,
`large_answers` writes answers that do not fit into a connection's buffer, and `responses` makes
answers and the headers of requests to other pods. `console` serves the page for a person's browser.
"""
