"""The order of row keys: unsigned bytes, and where the keys of a prefix end."""


def prefix_upper_bound(prefix: bytes) -> bytes | None:
    """The smallest key after all keys that start with `prefix`; exclusive.

    None when there is no such key: an empty prefix and one of FF bytes alone are open above.
    """
    stem = prefix.rstrip(b"\xff")
    if not stem:
        return None
    return stem[:-1] + bytes((stem[-1] + 1,))
