"""Who may call this pod: tokens and rights, as the API server's reviews tell them.

`setup` reads what the command line says of access and TLS. For each request `token_check`
takes the token (`token_claims`), asks `decisions` for what is known of it, and else
`review_client` for a TokenReview and a SubjectAccessReview (`reviews` has their bodies);
`review_limits` bounds how many reviews are under way and for whom. `rights` says which request
needs which right. `tls` reads certificates again when their files change.

Whatever decides is pure; `token_check`, `review_client`, `setup` and `tls` do the I/O.
"""
