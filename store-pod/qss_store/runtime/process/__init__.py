"""Sets up the pod's process.

`libraries` refuses versions that the pod was not made for, `memory_limit` finds the limit of
the container, `allocator` gives freed memory back, `file_limits` raises the limit of open
files, and `without_pandas` keeps Arrow from importing pandas.
"""
