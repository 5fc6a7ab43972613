"""HTTP with typed errors, deadlines and limits for answers.

1. A session calls `sync_http` (programs without an event loop) or `async_http` (with one) with a
   method, a URL and a deadline.
2. `credentials` adds the token to the request, and trusts the certificate authorities. It reads
   the files of both again when they have changed.
3. The request goes over a pooled connection. `bounded` reads the body of an answer that comes in
   parts, up to a limit. `wait_warnings` decides when to warn of a long wait; `slow_answers` watches
   for that from a thread, in programs without an event loop.
4. `answer` has the type of an answer, and turns a problem document into its error. If there is no
   answer, `unreachable` says why: a refused connection, a name that does not resolve, a timeout.
5. `retries` decides whether a failed request is sent again, after which pause, and whether the
   routes have to be read before that. It ends with an error that names the attempts.

`first_contact` makes the first request of a writer, and reports within seconds that a store cannot
be reached. Pods and the operator use `bounded`, `credentials` and `unreachable`, too.
"""
