"""Decides which callers may use this pod, by their tokens and the API server's reviews.

`setup` reads the options of access and TLS. For each request `token_check` takes the token
(`token_claims`) and asks `decisions` what is known of it. If that is not enough, `review_client`
asks the API server for a TokenReview and a SubjectAccessReview (`reviews` has their bodies);
`review_limits` limits the reviews under way, in all and by address. `rights` names the right that a
request needs. `tls` loads certificates again when their files change.

`token_check`, `review_client`, `setup` and `tls` do I/O; the other modules are pure.
"""
