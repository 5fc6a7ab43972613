"""The codes of requests that are wrong, and of callers without a right."""

from qss_core.codes.explanation import Explanation

REQUESTS = {
    "MALFORMED_REQUEST": Explanation(
        meaning="The request, or an argument of a command or of the client, cannot be understood.",
        cause="A member, a parameter or an option has a value of another form than is needed, or "
        "two were given that exclude each other.",
        remedy="The message names the part and the form that is needed. `/openapi.json` of a pod "
        "has all requests, `qss COMMAND --help` all options.",
    ),
    "MALFORMED_BYTES": Explanation(
        meaning="Bytes do not have the format that they should have.",
        cause="A key, a value, a chunk or a token was made with another serde or by another "
        "program, or it was cut.",
        remedy="Encode it with the serdes of the store: `qss describe STORE` names them.",
    ),
    "UNKNOWN_PARAMETER": Explanation(
        meaning="The request has a parameter that its path does not know.",
        cause="The parameter's name is misspelt, or it belongs to another path. A pod ignores no "
        "parameter, since the answer would then be another one than was asked for.",
        remedy="The message lists the parameters of the path.",
    ),
    "MALFORMED_CURSOR": Explanation(
        meaning="The cursor does not continue this request.",
        cause="A cursor continues the request that it came from. It was cut, or sent with other "
        "bounds, another order, another index or another store.",
        remedy="Send the cursor with the unchanged request, or begin without a cursor.",
    ),
    "RANGE_REVERSED": Explanation(
        meaning="The lower bound lies above the upper bound.",
        cause="Bounds are compared by the bytes of their serde. There, negative numbers come "
        "after positive ones, as in Kafka.",
        remedy="Exchange the bounds. For rows from the last to the first give the order "
        "(`qss scan --descending`), not exchanged bounds.",
    ),
    "NULL_KEY": Explanation(
        meaning="A row or a query has no key.",
        cause="A column of the key is null in a row of the job, or a query has `null` as its key.",
        remedy="Filter rows without a key before the sink, or choose the serde `json`, whose keys "
        "may be null.",
    ),
    "UNKNOWN_QUERY_TYPE": Explanation(
        meaning="The store does not answer this type of query.",
        cause="The type of a store decides its queries: a Window store has windows, a KeyValue "
        "store has none. Or the name is misspelt.",
        remedy="`qss describe STORE` tells the store's type; the message names the command or the "
        "types of queries that the store has.",
    ),
    "STORE_TYPE_REFUSED": Explanation(
        meaning="The pod cannot serve the custom type of the store.",
        cause="No package in the pod's image has the type, the type cannot be imported, or it "
        "refuses `spec.store.custom.options`.",
        remedy="Install the package in the image of `spec.pod.image`, or correct the options; the "
        "message has the reason of the type.",
    ),
    "LIMIT_EXCEEDED": Explanation(
        meaning="Something is larger than its limit (status 413 or 431), or too much runs at once "
        "(status 429).",
        cause="A key, a value, a body, a header, an answer or a position is larger than the pod "
        "takes; or one caller, or all callers together, have too many requests under way.",
        remedy="With 413 or 431 make the request or the rows smaller: the message names the limit. "
        "With 429 wait for `retryAfterMs` and send fewer requests at a time.",
    ),
    "REQUEST_TIMEOUT": Explanation(
        meaning="The body of the request came too slowly, and the pod closed the connection.",
        cause="The network is slow, or the program paused while it sent the body.",
        remedy="Send the request again, in smaller parts if the network is slow.",
    ),
    "NOT_ACCEPTABLE": Explanation(
        meaning="The pod has the answer in none of the content types that the client accepts.",
        cause="The header `Accept` names other types than the path has.",
        remedy="Accept `application/json`, or one of the types that `/openapi.json` has for the "
        "path.",
    ),
    "UNSUPPORTED_MEDIA": Explanation(
        meaning="The pod does not take a body of this content type or encoding.",
        cause="The header `Content-Type` or `Content-Encoding` names another one than the path "
        "takes, or the body is compressed.",
        remedy="Send the body as `application/json` and uncompressed, unless `/openapi.json` has "
        "another type for the path.",
    ),
    "HTTP_VERSION_NOT_SUPPORTED": Explanation(
        meaning="The request has another version of HTTP than 1.0 and 1.1.",
        cause="A client or a proxy speaks HTTP/2 to the pod, or what came is no HTTP.",
        remedy="Let the client or the proxy speak HTTP/1.1 to the pods.",
    ),
    "PATH_NOT_FOUND": Explanation(
        meaning="The pod has no such path.",
        cause="The path is misspelt, a `/` in a key is not written as `%2F`, or the request was "
        "sent to another port (queries have 8080, writers 8081).",
        remedy="`/openapi.json` has all paths.",
    ),
    "METHOD_NOT_ALLOWED": Explanation(
        meaning="The path does not have this method.",
        cause="A `POST` was sent where only `GET` is known, or the other way round.",
        remedy="The header `Allow` has the methods of the path.",
    ),
    "UNAUTHENTICATED": Explanation(
        meaning="The store asks for a token, and the request has none that is valid here.",
        cause="No token was sent, it has expired, or it was issued for another audience than the "
        "store's.",
        remedy="Give a token (`qss --token-file`, `Store(token=...)`); in a pod the client finds "
        "its own. `kubectl create token ACCOUNT --audience=...` makes one; "
        "`store-pod/docs/access.md` has the audience.",
    ),
    "FORBIDDEN": Explanation(
        meaning="The account is known and lacks a right.",
        cause="No Role gives the account the verb `query` or `write` on the store; in the "
        "operator's log, the operator's own account lacks a right.",
        remedy="Bind a Role with the right to the account: the message names both.",
    ),
    "ACCESS_UNKNOWN": Explanation(
        meaning="The pod does not know whether the caller may do this.",
        cause="The API server did not answer the pod's review of the token or of the right, and "
        "the pod has no verdict that is young enough.",
        remedy="Repeat the request after `retryAfterMs`; clients do so. If it lasts, look whether "
        "the API server runs and may be reached from the pods.",
    ),
    "CERTIFICATE_REFUSED": Explanation(
        meaning="The client does not trust the server's certificate, or the server speaks no TLS.",
        cause="The authority is unknown to the client, the name is another one, the certificate "
        "has expired, or an `https` URL leads to a port without TLS.",
        remedy="Name the authority (`qss --ca-file`, `Store(ca_file=...)`): it is the `ca.crt` of "
        "the Secret in `spec.access.tlsSecretName`.",
    ),
}
