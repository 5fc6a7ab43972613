"""Decides which callers may use this pod, by their tokens and the API server's reviews.

`setup` reads the options of access and TLS from the command line, and makes the guard of the pod
and the certificates. `tls` loads the certificates again when their files change.

A request passes the guard (`token_check`) before its handler runs:

1. `rights` names the right that the route needs: a right on the store, or the account of a pod or
   of the operator.
2. `token_claims` reads the bearer token, and hashes it. Tokens are kept by their hashes only.
3. `verdicts` looks up the verdicts on the token: it admits the request, refuses it, or asks a
   question. A token that was admitted to the same route lately passes without the other steps.
4. A question goes to the API server: `review_client` sends a TokenReview or a SubjectAccessReview
   (`reviews` has their bodies). Requests with the same question share one review. `review_limits`
   limits the reviews of unknown tokens, in all and by address.
5. The answer is kept in `verdicts` until it has to be reviewed again. An answer that allows stays
   usable for longer while the API server does not answer.

`token_check`, `review_client`, `setup` and `tls` do I/O; the other modules are pure. The middleware
that calls the guard is `http.access`.
"""
