"""Versioned stores compared with Kafka's: vectors, traps, and cases in which Kafka is wrong."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from qss_core.positions import Position
from qss_store.reads.routing.admission import Reading
from qss_testing.clients.readings import open_reading
from qss_testing.pods.stores import Cluster, Put, commit_rows
from qss_testing.reference.kafka_vectors import VECTORS, Vector
from qss_testing.reference.kafka_versions import (
    LATEST_SEGMENT,
    Version,
    decode_key,
    decode_latest,
    decode_segment,
    encode_key,
    encode_latest,
    encode_segment,
)
from qss_testing.reference.versions import VERSIONED, stored_as_of, stored_between

MINUTE = 60_000
RETENTION = 10 * MINUTE
STORE = {**VERSIONED, "history_retention_ms": RETENTION}
KINDS = ("versioned_key", "versioned_latest_value", "versioned_segment_value")
Make = Callable[..., Awaitable[Cluster]]


def bytes_of(text: str | None) -> bytes | None:
    return None if text is None else bytes.fromhex(text)


def versions_of(documents: list[dict[str, Any]]) -> list[Version]:
    return [
        Version(bytes_of(one["value_hex"]), one["valid_from"], one["valid_to"]) for one in documents
    ]


@pytest.mark.parametrize(
    "vector", [one for one in VECTORS if one["kind"] in KINDS], ids=lambda one: one["kind"]
)
def test_kafkas_layouts_are_read_and_written_byte_for_byte(vector: Vector) -> None:
    given, data = vector["input"], bytes.fromhex(vector["hex"])
    if vector["kind"] == "versioned_key":
        parts = given["segment_id"], bytes.fromhex(given["key_hex"])
        assert (encode_key(*parts), decode_key(data)) == (data, parts)
        assert data.startswith(b"\xff" * 8) is (given["segment_id"] == LATEST_SEGMENT)
    elif vector["kind"] == "versioned_latest_value":
        latest = bytes.fromhex(given["value_hex"]), given["timestamp"]
        assert (encode_latest(*latest), decode_latest(data)) == (data, latest)
    else:
        assert encode_segment(versions_of(given["records_oldest_first"])) == data
        values = [one for one in decode_segment(data) if one.value is not None]
        assert values == versions_of(vector["find_all_newest_first"])


def test_a_gap_after_a_tombstone_is_a_second_tombstone_unless_the_first_is_alone() -> None:
    """RocksDBVersionedStoreSegmentValueFormatter inserts them in this way."""
    after_a_value = [Version(b"a", 1, 5), Version(None, 5, 8), Version(b"b", 10, 12)]
    tombstone = Version(None, 8, 10)
    assert decode_segment(encode_segment(after_a_value)) == [
        *reversed([*after_a_value[:2], tombstone, after_a_value[2]])
    ]
    alone = [Version(None, 8, 8), Version(b"b", 10, 12)]
    assert decode_segment(encode_segment(alone)) == [alone[1], tombstone]


async def put(cluster: Cluster, *versions: tuple[int | None, str | None]) -> None:
    rows = [Put(b"a", None if v is None else v.encode(), time) for time, v in versions]
    await cluster.put_into({0: rows}, {"in": {"0": 41}})


def reading_of(cluster: Cluster) -> Reading:
    return open_reading(cluster.nodes[0].pod)


def as_of(cluster: Cluster, time: int | None = None) -> str | None:
    found = stored_as_of(reading_of(cluster), b"a", time)
    return None if found is None else found.value.decode()


def history(
    cluster: Cluster, first: int | None = None, last: int | None = None
) -> list[tuple[str, int, int | None]]:
    found = stored_between(reading_of(cluster), b"a", first, last)
    return [(one.value.decode(), one.valid_from, one.valid_to) for one in found]


def on_disk(cluster: Cluster) -> list[tuple[str, bytes]]:
    engine = cluster.active(0).engine
    families = sorted(one for one in engine.families() if one.startswith("rows-"))
    return [(family, key) for family in families for key, _ in engine.scan(family)]


async def test_trap_19_a_tombstone_as_the_first_version(make: Make) -> None:
    cluster = await make()
    await put(cluster, (500, None))
    assert (as_of(cluster), as_of(cluster, 500), history(cluster)) == (None, None, [])
    await put(cluster, (400, "before"))
    assert (as_of(cluster), as_of(cluster, 499)) == (None, "before")
    assert history(cluster) == [("before", 400, 500)]
    await put(cluster, (600, "after"))
    assert history(cluster) == [("before", 400, 500), ("after", 600, None)]


async def test_trap_19_a_gap_between_versions(make: Make) -> None:
    cluster = await make()
    await put(cluster, (100, "v1"), (200, None), (250, "val2"), (300, None))
    assert [as_of(cluster, time) for time in (199, 200, 249, 250, 299, 300)] == [
        *("v1", None, None, "val2", "val2", None)
    ]
    assert history(cluster, 200, 249) == []


async def test_trap_19_a_put_at_an_existing_timestamp_takes_its_place(make: Make) -> None:
    cluster = await make()
    await put(cluster, (100, "a"), (200, "b"), (300, "c"))
    await put(cluster, (200, "B"), (300, "C"))
    assert history(cluster) == [("a", 100, 200), ("B", 200, 300), ("C", 300, None)]
    await put(cluster, (200, None), (300, None))
    assert history(cluster) == [("a", 100, 200)]
    await put(cluster, (200, "b again"), (300, ""))
    assert history(cluster) == [("a", 100, 200), ("b again", 200, 300), ("", 300, None)]


async def test_trap_19_a_put_older_than_the_retention_is_dropped_and_one_at_the_limit_kept(
    make: Make,
) -> None:
    cluster = await make()
    await put(cluster, (20 * MINUTE, "now"))
    await put(cluster, (10 * MINUTE - 1, "older"), (10 * MINUTE, "kept"))
    assert history(cluster) == [("kept", 10 * MINUTE, 20 * MINUTE), ("now", 20 * MINUTE, None)]
    text = cluster.nodes[0].pod.metrics.render(lambda: None).decode()
    assert "qss_expired_records_total 1.0" in text
    position = reading_of(cluster).view.position
    assert position == position.merge(Position.of({"in": {0: 41}})), "it moves the position"


async def test_the_latest_version_never_expires(make: Make) -> None:
    cluster = await make()
    await put(cluster, (0, "old"))
    await cluster.put_into({0: [Put(b"b", b"1", 10_000 * MINUTE)]})
    assert (as_of(cluster), as_of(cluster, 0)) == ("old", "old")
    await put(cluster, (9_999 * MINUTE, "new"))
    assert as_of(cluster, 9_990 * MINUTE) == "old"
    assert as_of(cluster, 9_990 * MINUTE - 1) is None, "older than the retention"


async def test_a_put_is_not_late_for_another_ones_time_in_its_batch(make: Make) -> None:
    cluster = await make()
    rows = [Put(b"b", b"1", 10_000 * MINUTE), Put(b"a", b"its only value", 0)]
    await cluster.put_into({0: rows})
    assert as_of(cluster) == "its only value"


async def test_expired_history_leaves_the_disk_with_its_segment(make: Make) -> None:
    cluster = await make()
    await put(cluster, *((number * MINUTE, str(number)) for number in range(30)))
    assert len(history(cluster)) == 11
    await put(cluster, (60 * MINUTE, None), (61 * MINUTE, "last"))
    assert history(cluster) == [("29", 29 * MINUTE, 60 * MINUTE), ("last", 61 * MINUTE, None)]
    families = {family for family, _ in on_disk(cluster)}
    assert families == {"rows-Plain-0", "rows-Plain-0-12"}
    await put(cluster, (200 * MINUTE, None))
    await put(cluster, (300 * MINUTE, None))
    assert (history(cluster), len(on_disk(cluster))) == ([], 1), "a mark is all that is left"


async def test_a_batch_that_moves_time_far_makes_few_segments_and_loses_no_neighbour(
    make: Make,
) -> None:
    cluster = await make()
    day = 24 * 60 * MINUTE
    await put(cluster, *((number * day, str(number)) for number in range(400)))
    # Its end is a tombstone that lies in no live segment; it comes before what it ends.
    await put(cluster, (399 * day + MINUTE, "x"), (500 * day, None), (499 * day, "y"))
    assert as_of(cluster) is None
    families = [name for name in cluster.active(0).engine.families() if name.startswith("rows-")]
    assert len(families) <= 5


async def test_a_tombstone_that_expires_with_its_batch_still_ends_a_version_that_comes_after(
    make: Make,
) -> None:
    cluster = await make()
    now = 1_000 * MINUTE
    await put(cluster, (now, "now"), (10 * MINUTE, None), (5 * MINUTE, "ended"))
    assert as_of(cluster, now - 1) is None
    assert history(cluster) == [("now", now, None)]


async def test_trap_22_history_position_and_stream_time_outlive_a_restart(make: Make) -> None:
    cluster = await make()
    await put(cluster, (100, "v1"), (200, "val2"), (300, None))
    before = history(cluster), reading_of(cluster).view.position
    await cluster.stop_pod(0)
    await cluster.start_pod(0)
    assert (history(cluster), reading_of(cluster).view.position) == before
    assert before[0] == [("v1", 100, 200), ("val2", 200, 300)]
    assert reading_of(cluster).view.stream_time == 300


async def test_trap_23_a_version_is_found_whichever_segment_it_ends_in(make: Make) -> None:
    # Kafka looks only at the segments up to toTime; the reference's numbers, in seconds.
    cluster = await make(history_retention_ms=120_000)
    second = 60  # Segments of 60 000 ms.
    await put(cluster, (1500 * second, "v"), (2500 * second, "w"))
    wanted = [("v", 1500 * second, 2500 * second)]
    for first, last in ((1200, 1999), (1600, 1900), (1200, 2000)):
        assert history(cluster, first * second, last * second) == wanted


async def test_puts_without_a_time_have_that_of_their_batch(make: Make) -> None:
    cluster = await make()
    await put(cluster, (None, "now"))
    view = reading_of(cluster).view
    assert view.stream_time == 1_700_000_000_000
    assert history(cluster) == [("now", view.stream_time, None)]


async def test_a_replace_forgets_all_versions_and_their_time(make: Make) -> None:
    cluster = await make()
    await put(cluster, (60 * MINUTE, "a"), (61 * MINUTE, "b"))
    replica = cluster.active(0)
    await commit_rows(replica, [Put(b"a", b"new", 5)], batch=9, position={}, replace=True)
    assert (history(cluster), reading_of(cluster).view.stream_time) == ([("new", 5, None)], 5)
