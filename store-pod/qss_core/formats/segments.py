"""Segments, and the rules by which retention hides and drops rows with times.

A row's time is its window's start, its session's end, or the end of a replaced version. Stream time
is the largest time applied in a partition. All times are milliseconds since 1970, never negative.
"""

from dataclasses import dataclass

from qss_core.formats.timed_keys import (
    SESSION_SUFFIX_BYTES,
    TIME_MAX,
    VERSION_SUFFIX_BYTES,
    WINDOW_SUFFIX_BYTES,
)
from qss_core.model import StoreDefinition, StoreType

INTERVAL_MS_MIN = 60_000
TIME_BYTES = 8


@dataclass(frozen=True, slots=True)
class Segments:
    """The segments of one store.

    `time_in_key` is the place of the time in a row key: eight bytes, big-endian, so byte order is
    time order.
    """

    retention_ms: int
    time_in_key: slice

    @property
    def interval_ms(self) -> int:
        """The length of a segment, by Kafka's default."""
        return max(self.retention_ms // 2, INTERVAL_MS_MIN)

    def time_of(self, row_key: bytes) -> int:
        return int.from_bytes(row_key[self.time_in_key], "big")

    def segment_of(self, time: int) -> int:
        return time // self.interval_ms

    def first_live(self, stream_time: int) -> int:
        """The first segment that is not expired."""
        return max(0, (stream_time - self.retention_ms) // self.interval_ms)

    def earliest_visible(self, stream_time: int) -> int:
        """The earliest time that readers see: a row at stream time - retention is hidden."""
        return max(0, stream_time - self.retention_ms + 1)


def segments_of(definition: StoreDefinition) -> Segments | None:
    """The segments of a store; None if its rows have no time."""
    retention_ms = definition.retention_ms
    match definition.type:
        case StoreType.WINDOW:
            suffix_bytes = WINDOW_SUFFIX_BYTES
        case StoreType.SESSION:
            suffix_bytes = SESSION_SUFFIX_BYTES
        case StoreType.VERSIONED:
            suffix_bytes = VERSION_SUFFIX_BYTES
            retention_ms = definition.history_retention_ms
        case _:
            return None
    assert retention_ms is not None, "a definition of this type has a retention"
    return Segments(retention_ms, slice(-suffix_bytes, TIME_BYTES - suffix_bytes))


def encode_time(time: int) -> bytes:
    """The bytes of a time in row keys; times out of range become the nearest valid time."""
    return min(max(time, 0), TIME_MAX).to_bytes(TIME_BYTES, "big")
