"""HTTP with typed errors, deadlines and bounded answers: `sync_http` for programs without an event
loop, `async_http` for programs with one.

`retries` says whether and when a failed request is sent again, `first_contact` tells within
seconds that a store is not there, `wait_warnings` and `slow_answers` tell long waits,
`unreachable` puts a missing answer in plain words. `credentials` reads tokens and certificate
authorities again from time to time. `answer` is an HTTP answer as a value, `bounded` reads a body
up to a limit.
"""
