"""The processes of a run: product code over simulated parts.

`pod` is a store pod's process, `operator` the operator's, `writer` the driver of a streaming query,
and `reader` a client that reads. Each runs in a node of its own, and ends when the node is killed.
"""
