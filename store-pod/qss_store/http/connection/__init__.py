"""One connection: `accept` takes it in when it comes, `limits` decides whether a listener has room
for it, in all and for its address, and `protocol` bounds its heads and how slowly its client reads.
"""
