"""The traps of Kafka Streams in windows, sessions and retention, one rule for each test.

The numbers are Kafka's: a retention of ten minutes, so segments of five minutes.
"""

from collections.abc import Awaitable, Callable

import pytest

from qss_core.formats.segments import segments_of
from qss_core.formats.timed_keys import (
    decode_window_key,
    encode_session_key,
    encode_window_key,
    window_end,
)
from qss_core.formats.values import Format, decode_value
from qss_core.model import StoreType
from qss_core.spec.resource import formats_of
from qss_store.replicas.replica import Replica
from qss_testing.pods.stores import (
    Cluster,
    Put,
    commit_rows,
    make_definition,
)
from qss_testing.row_bytes import Record, decode_row

MINUTE = 60_000
RETENTION = 10 * MINUTE
STORE = {"type": StoreType.WINDOW, "retention_ms": RETENTION}

Make = Callable[..., Awaitable[Cluster]]


async def put(cluster: Cluster, *rows: Put) -> None:
    await cluster.put_into({0: list(rows)})


async def restart(cluster: Cluster) -> None:
    await cluster.stop_pod(0)
    await cluster.start_pod(0)


def window(start: int, value: str | None = "v", key: str = "a") -> Put:
    return Put(key.encode(), None if value is None else value.encode(), start=start)


def rows(cluster: Cluster) -> dict[bytes, str]:
    """The rows that readers see, by row key."""
    view = cluster.active(0).view
    assert view is not None
    return {key: decode_value(view.format, row).decode() for key, row in view.rows.scan()}


def starts(cluster: Cluster) -> list[int]:
    return [decode_window_key(key).start for key in rows(cluster)]


def on_disk(replica: Replica) -> list[bytes]:
    """Every row key in every family, also of rows that retention hides."""
    families = sorted(one for one in replica.engine.families() if one.startswith("rows-"))
    return [key for family in families for key, _ in replica.engine.scan(family)]


def stream_time(cluster: Cluster) -> int:
    view = cluster.active(0).view
    assert view is not None
    return view.stream_time


async def test_trap_2_a_session_is_kept_by_its_end_which_is_inclusive(make: Make) -> None:
    cluster = await make(type=StoreType.SESSION)
    await put(cluster, Put(b"a", b"v", start=1000, end=2000))
    (row_key,) = rows(cluster)
    assert row_key == encode_session_key(b"a", 1000, 2000)
    assert row_key.hex() == "61" + "00000000000007d0" + "00000000000003e8"
    assert stream_time(cluster) == 2000


def test_trap_2_a_window_ends_before_its_end() -> None:
    segments = segments_of(make_definition(type=StoreType.WINDOW))
    assert segments is not None
    assert window_end(0, 1000) == 1000
    assert segments.time_of(encode_window_key(b"a", 1000)) == 1000


async def test_trap_10_rows_that_retention_hides_stay_hidden_after_a_restart(make: Make) -> None:
    cluster = await make()
    await put(cluster, window(2 * MINUTE))
    await put(cluster, window(12 * MINUTE))
    assert starts(cluster) == [12 * MINUTE]
    await restart(cluster)
    assert stream_time(cluster) == 12 * MINUTE
    assert starts(cluster) == [12 * MINUTE]


async def test_trap_11_a_late_row_in_a_live_segment_is_stored_and_not_readable(make: Make) -> None:
    cluster = await make()
    await put(cluster, window(12 * MINUTE))
    await put(cluster, window(2 * MINUTE), window(2 * MINUTE + 1))
    assert starts(cluster) == [2 * MINUTE + 1, 12 * MINUTE]
    assert encode_window_key(b"a", 2 * MINUTE) in on_disk(cluster.active(0))
    view = cluster.active(0).view
    assert view is not None
    assert view.rows.get(encode_window_key(b"a", 2 * MINUTE)) is None


async def test_trap_11_a_row_of_an_expired_segment_is_dropped_and_counted(make: Make) -> None:
    cluster = await make()
    await put(cluster, window(15 * MINUTE))
    await put(cluster, window(5 * MINUTE - 1), window(5 * MINUTE), window(0))
    replica = cluster.active(0)
    assert on_disk(replica) == [
        encode_window_key(b"a", 5 * MINUTE),
        encode_window_key(b"a", 15 * MINUTE),
    ]
    text = cluster.nodes[0].pod.metrics.render(lambda: None).decode()
    assert "qss_expired_records_total 2.0" in text
    assert "qss_committed_records_total 2.0" in text


async def test_trap_11_a_batch_is_judged_by_the_stream_time_after_it(make: Make) -> None:
    cluster = await make()
    await put(cluster, window(0, key="early"), window(30 * MINUTE, key="late"))
    assert on_disk(cluster.active(0)) == [encode_window_key(b"late", 30 * MINUTE)]


async def test_an_expired_segment_leaves_the_disk_and_not_a_scan_that_runs(make: Make) -> None:
    cluster = await make()
    await put(cluster, *(window(minute * MINUTE) for minute in range(10)))
    replica = cluster.active(0)
    assert replica.view is not None
    running = replica.view.rows.scan()
    first = next(running)
    await put(cluster, window(60 * MINUTE))
    assert starts(cluster) == [60 * MINUTE]
    assert on_disk(replica) == [encode_window_key(b"a", 60 * MINUTE)]
    seen = [decode_window_key(key).start for key, _ in (first, *running)]
    assert seen == [minute * MINUTE for minute in range(10)]


async def test_a_row_far_in_the_future_hides_all_others_as_kafkas_does(make: Make) -> None:
    cluster = await make()
    await put(cluster, window(MINUTE))
    await put(cluster, window(2**63 - 1))
    assert starts(cluster) == [2**63 - 1]


async def test_a_delete_moves_stream_time_as_kafkas_does(make: Make) -> None:
    cluster = await make()
    await put(cluster, window(MINUTE), window(6 * MINUTE))
    await put(cluster, window(6 * MINUTE, None), window(13 * MINUTE, None))
    assert (stream_time(cluster), starts(cluster)) == (13 * MINUTE, [])


async def test_a_replace_starts_stream_time_anew(make: Make) -> None:
    cluster = await make()
    await put(cluster, window(60 * MINUTE))
    replica = cluster.active(0)
    await commit_rows(replica, [window(MINUTE)], batch=1, position={}, replace=True)
    assert (stream_time(cluster), starts(cluster)) == (MINUTE, [MINUTE])
    await commit_rows(replica, [], batch=2, position={}, replace=True)
    assert (stream_time(cluster), on_disk(replica)) == (-1, [])


async def test_trap_18_all_windows_of_a_key_are_in_one_partition(make: Make) -> None:
    cluster = await make()
    await put(cluster, window(0), window(MINUTE))
    assert {decode_window_key(key).key for key in rows(cluster)} == {b"a"}


async def test_trap_21_rows_of_a_store_with_duplicates_outlive_those_put_after_a_restart(
    make: Make,
) -> None:
    cluster = await make(retain_duplicates=True)
    await put(cluster, window(1000, "first"), window(1000, "second"), window(1000, None))
    await restart(cluster)
    await put(cluster, window(1000, "third"))
    assert rows(cluster) == {
        encode_window_key(b"a", 1000, 1): "first",
        encode_window_key(b"a", 1000, 2): "second",
        encode_window_key(b"a", 1000, 3): "third",
    }


async def test_trap_21_a_delete_is_ignored_by_a_store_with_duplicates(make: Make) -> None:
    cluster = await make(retain_duplicates=True)
    await put(cluster, window(1000))
    await put(cluster, window(60 * MINUTE, None))
    assert (stream_time(cluster), starts(cluster)) == (1000, [1000])


async def test_without_duplicates_a_later_row_takes_the_place_of_an_earlier_one(
    make: Make,
) -> None:
    cluster = await make()
    await put(cluster, window(1000, "first"))
    await put(cluster, window(1000, "second"), window(2000, "x"), window(2000, None))
    assert rows(cluster) == {encode_window_key(b"a", 1000): "second"}


@pytest.mark.parametrize(
    ("store_type", "store_format"),
    [
        (store_type, store_format)
        for store_type in (StoreType.WINDOW, StoreType.SESSION)
        for store_format in formats_of(store_type)
    ],
)
async def test_every_format_of_the_type_is_kept(
    make: Make, store_type: StoreType, store_format: Format
) -> None:
    cluster = await make(type=store_type, format=store_format.value)
    headers = (("h", None), ("h", b"1"))
    await put(cluster, Put(b"a", b"v", 7, headers, start=1000, end=2000))
    view = cluster.active(0).view
    assert view is not None
    ((_, row),) = view.rows.scan()
    keeps_headers = store_format in (Format.TimestampedWithHeaders, Format.PlainWithHeaders)
    keeps_timestamp = store_format in (Format.TimestampedWithHeaders, Format.Timestamped)
    assert decode_row(view.format, row) == Record(
        b"v", 7 if keeps_timestamp else None, headers if keeps_headers else ()
    )
