"""Benchmarks: each figure is a ratio to a baseline of the same run (`make bench`)."""
