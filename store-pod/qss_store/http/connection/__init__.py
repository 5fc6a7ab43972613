"""The connections of a listener, from the kernel's queue to aiohttp.

1. `http.server` makes one `accept.Acceptor` for each listening port. It accepts for at most a
   millisecond in a round, so that a flood of connections leaves time for requests.
2. Each accepted connection takes a place in `limits.ConnectionPlaces`, at once: without a place it
   is refused. If the listener or the client's address has too many, the connection that has waited
   longest for its client is dropped; one with a request or an answer under way is never dropped.
3. When the first bytes have come (and TLS is agreed), `accept` makes a `protocol.Connection` and
   hands the place over to it. Before that a connection costs a file descriptor and its place alone.
   No bytes in time, or an end: the connection is given up.
4. `protocol` is aiohttp's request handler with limits of its own: the size and time of a head, the
   bytes that wait to be sent, and how slowly a client may take an answer. It offers bytes to the
   fast path first. That is sound only between two requests, when all earlier ones are answered.

`protocol` leaves the place when the connection is lost; a second `leave` is no error. Bytes that
are not HTTP get a problem document as other failures do. The limits are `ListenerLimits`; the ops
port has stricter ones, since it checks no callers.

The package uses `http.middleware` and `runtime`, and knows no routes. Tests: `test_connection` and
`test_limits` (unit), `test_connections`, `test_connections_on_uvloop` and `test_http_shell`
(integration).
"""
