"""One connection: `protocol` bounds its head, its handshake and how slowly its client may read;
`limits` decides which connections a listener has room for, in all and for each address.
"""
