"""The bounds of a TimedPlan's rows among the row keys of a partition, and its filter. Pure.

The bounds for one key are Kafka's, byte for byte. The bounds for a range of keys include every
wanted row; Kafka's upper bound misses rows of a key that is a prefix of another key with a small
next byte ("a" beside "a\\x00"). Rows of other keys and times also lie between the bounds:
`make_filter` drops them by their row keys.
"""

from collections.abc import Callable

from qss_core.formats.segments import encode_time
from qss_core.formats.timed_keys import (
    SEQUENCE_MAX,
    SESSION_SUFFIX_BYTES,
    WINDOW_SUFFIX_BYTES,
)
from qss_core.model import StoreType
from qss_store.reads.plans.times import TimedPlan

_SEQUENCE_BYTES = 4
_TIME_BYTES = 8

Bounds = tuple[bytes | None, bytes | None]
# Sorts rows by time, then key, then the rest of the row key, then partition.
TimeOrder = tuple[bytes, bytes, bytes, int]


def suffix_bytes(store_type: StoreType) -> int:
    """The number of bytes of a row key after the key."""
    return WINDOW_SUFFIX_BYTES if store_type is StoreType.WINDOW else SESSION_SUFFIX_BYTES


def row_bounds(plan: TimedPlan, stream_time: int) -> Bounds | None:
    """The bounds of the row keys, the upper one exclusive; None if there can be no row.

    No row's time exceeds the partition's stream time, which shortens an open range.
    """
    latest = min(plan.latest, stream_time)
    if plan.earliest > latest or plan.start_from > plan.start_to:
        return None
    is_window = plan.type is StoreType.WINDOW
    least, most = (
        (bytes(_SEQUENCE_BYTES), SEQUENCE_MAX.to_bytes(_SEQUENCE_BYTES, "big"))
        if is_window
        else (encode_time(0), encode_time(plan.start_to))
    )
    last = encode_time(latest) + most
    if plan.key_from is not None and plan.key_from == plan.key_to:
        return plan.key_from + encode_time(plan.earliest) + least, plan.key_from + last + b"\x00"
    lower = None if plan.key_from is None else plan.key_from + bytes(suffix_bytes(plan.type))
    return lower, None if plan.key_to is None else _largest(plan.key_to, last) + b"\x00"


def _largest(key: bytes, suffix: bytes) -> bytes:
    """The largest row key of `key` and of all its prefixes, with the given suffix."""
    end = len(key)
    for start in range(len(key) - 1, -1, -1):
        # Most bytes of most keys exceed the first byte of a time, so no comparison is needed.
        if key[start] <= suffix[0]:
            longer = (key[start : min(end, start + len(suffix))] + suffix)[: len(suffix)]
            if suffix > longer:
                end = start
    return key[:end] + suffix


def make_filter(plan: TimedPlan) -> Callable[[bytes], bool]:
    """Makes the function (row key) -> whether the plan wants the row."""
    suffix = suffix_bytes(plan.type)
    lowest, highest = plan.key_from or b"", plan.key_to
    time = slice(-suffix, _TIME_BYTES - suffix)
    first, last = encode_time(plan.earliest), encode_time(plan.latest)
    start_first, start_last = encode_time(plan.start_from), encode_time(plan.start_to)
    is_empty = plan.latest < 0
    tail = slice(-_TIME_BYTES, None)

    def of_windows(row_key: bytes) -> bool:
        key = row_key[:-suffix]
        return (
            lowest <= key
            and (highest is None or key <= highest)
            and first <= row_key[time] <= last
            and not is_empty
        )

    def of_sessions(row_key: bytes) -> bool:
        return of_windows(row_key) and start_first <= row_key[tail] <= start_last

    def of_versions(row_key: bytes) -> bool:
        # The mark of a tombstone begins and ends at the same time.
        return of_sessions(row_key) and row_key[time] != row_key[tail]

    if plan.type is StoreType.WINDOW and plan.key_from == highest is not None:
        return _windows_of_key(highest, plan)
    filters = {StoreType.WINDOW: of_windows, StoreType.SESSION: of_sessions}
    return filters.get(plan.type, of_versions)


def _windows_of_key(key: bytes, plan: TimedPlan) -> Callable[[bytes], bool]:
    """Row keys of one length between two bounds with the same key have that key, too."""
    size = len(key) + WINDOW_SUFFIX_BYTES
    low = key + encode_time(plan.earliest) + bytes(_SEQUENCE_BYTES)
    high = key + encode_time(plan.latest) + b"\xff" * _SEQUENCE_BYTES
    is_empty = plan.latest < 0
    return lambda row_key: len(row_key) == size and low <= row_key <= high and not is_empty


def make_time_order(store_type: StoreType, partition: int) -> Callable[[bytes], TimeOrder]:
    """Makes the function (row key) -> sort key by time, then key, of the rows of a partition."""
    suffix = suffix_bytes(store_type)
    time = slice(-suffix, _TIME_BYTES - suffix)
    return lambda row_key: (row_key[time], row_key[:-suffix], row_key[-suffix:], partition)


def time_in(row_key: bytes, store_type: StoreType) -> int:
    """The time by which a row is ordered, in milliseconds."""
    suffix = suffix_bytes(store_type)
    return int.from_bytes(row_key[-suffix:][:_TIME_BYTES], "big")
