"""HTTP with typed errors, deadlines and limits for answers.

`sync_http` is for programs without an event loop, `async_http` for programs with one. `retries`
decides whether and when a failed request is sent again. `first_contact` reports within seconds that
a store cannot be reached, `wait_warnings` and `slow_answers` warn of long waits, and `unreachable`
words a missing answer. `credentials` reads tokens and certificate authorities, also after they have
changed. `answer` has the type of an answer, `bounded` reads a body up to a limit.
"""
