"""The order of row keys as unsigned bytes."""


def prefix_upper_bound(prefix: bytes) -> bytes | None:
    """The smallest key after all keys that start with `prefix`; exclusive.

    None if there is no such key: the prefix is empty or has only FF bytes.
    """
    stem = prefix.rstrip(b"\xff")
    if not stem:
        return None
    return stem[:-1] + bytes((stem[-1] + 1,))
