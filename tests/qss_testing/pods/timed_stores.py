"""Stores of windows and sessions, and a simple reference of their answers."""

from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from qss_core.model import StoreType
from qss_testing.clients.http import NDJSON, Api
from qss_testing.pods.stores import Cluster, Put

StartCluster = Callable[..., Awaitable[Cluster]]

SIZE_MS = 1000
_PAGES_MAX = 1000
RETENTION_MS = 3_600_000

WINDOW: dict[str, Any] = {
    "type": StoreType.WINDOW,
    "retention_ms": RETENTION_MS,
    "window_size_ms": SIZE_MS,
}
SESSION: dict[str, Any] = {
    "type": StoreType.SESSION,
    "retention_ms": RETENTION_MS,
    "session_gap_ms": SIZE_MS,
    "format": "Plain",
}

# Some keys are prefixes of others, so that their rows are interleaved.
KEYS = [b"a", b"aa", b"a\x00b", b"a\x00", b"b", b"c", b"ca", b"d"]
# In two segments, so that a key has rows in both.
STARTS = [0, 1000, 2000, 1_799_999, 1_800_000, 1_900_000]


def window_puts(keys: Iterable[bytes] = KEYS, starts: Iterable[int] = STARTS) -> list[Put]:
    """A window for each key and start, each with its own value."""
    of_starts = list(starts)
    return [
        Put(key, b'{"k":"%b","t":%d}' % (key.hex().encode(), start), start + 1, start=start)
        for key in keys
        for start in of_starts
    ]


def session_puts(keys: Iterable[bytes] = KEYS, bounds: Iterable[tuple[int, int]] = ()) -> list[Put]:
    """A session for each key and each (start, end)."""
    of_bounds = list(bounds)
    return [
        Put(key, b'{"k":"%b","t":%d}' % (key.hex().encode(), end), None, start=start, end=end)
        for key in keys
        for start, end in of_bounds
    ]


def by_row_key(cluster: Cluster, puts: Iterable[Put], *, reverse: bool = False) -> list[Put]:
    """Rows partition by partition, in order of the row keys."""

    def order(put: Put) -> bytes:
        if cluster.definition.type is StoreType.WINDOW:
            return put.key + put.start.to_bytes(8, "big")
        return put.key + put.end.to_bytes(8, "big") + put.start.to_bytes(8, "big")

    in_order = sorted(puts, key=order, reverse=reverse)
    return [
        put
        for partition in range(cluster.partitions)
        for put in in_order
        if cluster.partition_of(put.key) == partition
    ]


def by_time(cluster: Cluster, puts: Iterable[Put], *, reverse: bool = False) -> list[Put]:
    """Rows over all partitions, by time, then key, then the rest."""

    def order(put: Put) -> tuple[int, bytes, int]:
        time = put.start if cluster.definition.type is StoreType.WINDOW else put.end
        return time, put.key, put.start

    return sorted(puts, key=order, reverse=reverse)


def seen(put: Put) -> tuple[str, int, int]:
    """A row in the form that tests compare: key, start, end."""
    return put.key.decode(), put.start, put.end


def windows_of(rows: Iterable[Any]) -> list[tuple[str, int, int]]:
    """Rows of an answer in the form that tests compare; checks the windows' ends."""
    found = []
    for row in rows:
        assert row["windowEnd"] == row["windowStart"] + SIZE_MS
        found.append((row["key"], row["windowStart"], 0))
    return found


def sessions_of(rows: Iterable[Any]) -> list[tuple[str, int, int]]:
    """Rows of an answer in the form that tests compare."""
    return [(row["key"], row["sessionStart"], row["sessionEnd"]) for row in rows]


async def pages(next_pod: Callable[[], Api], path: str, accept: str = "*/*") -> list[list[Any]]:
    """The rows of all pages of a scan, each page from the next pod."""
    found: list[list[Any]] = []
    cursor: str | None = ""
    while cursor is not None:
        more = f"&cursor={cursor}" if cursor else ""
        answer = await next_pod().get(path + more, Accept=accept)
        assert answer.status == 200, answer.body
        if accept == NDJSON:
            lines = answer.lines()
            rows, cursor = [one for one in lines if "partition" not in one], lines[-1]["cursor"]
        else:
            rows, cursor = answer.json()["rows"], answer.json()["cursor"]
        found.append(rows)
        assert len(found) <= _PAGES_MAX, "the pages do not end"
    return found
