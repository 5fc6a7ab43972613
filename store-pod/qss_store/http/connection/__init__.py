"""The connections of a listener.

`accept` accepts connections, `limits` decides whether the listener and the client's address have
room for one more, and `protocol` limits the heads of requests and how slowly a client may read.
"""
