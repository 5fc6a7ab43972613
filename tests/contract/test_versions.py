"""A Versioned partition has the same rows in whatever order its puts came, on every engine."""

from collections.abc import Awaitable, Callable
from random import Random  # noqa: TID251 the seed is the test's id.

import pytest

from qss_store.reads.routing.admission import Reading
from qss_testing.clients.readings import open_reading
from qss_testing.pods.stores import Cluster, Put, commit_rows
from qss_testing.reference.versions import VERSIONED, Versions, stored_as_of, stored_between

pytestmark = pytest.mark.long

MINUTE = 60_000
RETENTION = 10 * MINUTE
STORE = {**VERSIONED, "history_retention_ms": RETENTION}
WALL = 1_700_000_000_000
# Some keys are prefixes of others; the next byte may also occur in times.
KEYS = [b"a", b"a\x00", b"a\x00\x00\x00\x00\x00\x01", b"aa", b"b"]
Make = Callable[..., Awaitable[Cluster]]


def reading_of(cluster: Cluster) -> Reading:
    (node,) = cluster.nodes.values()
    return open_reading(node.pod)


def some_puts(random: Random, around: int) -> list[Put]:
    """Puts of a few minutes: many at equal times, some deletes, a few far away or without time."""
    puts = []
    for number in range(random.choice([1, 3, 40, 700])):
        time = around + random.randrange(-12, 4) * MINUTE + random.choice([0, 0, 1, MINUTE - 1])
        if random.random() < 0.05:
            time += random.randrange(-30, 30) * MINUTE
        value = None if random.random() < 0.3 else b'"%d"' % number
        undated = around > 10**12 and random.random() < 0.1
        timestamp = None if undated else max(0, time)
        puts.append(Put(random.choice(KEYS), value, timestamp))
    return puts


def check(cluster: Cluster, expected: Versions, random: Random) -> None:
    reading = reading_of(cluster)
    assert reading.view.stream_time == expected.stream_time
    now = expected.stream_time
    edges = {now, now - RETENTION, now - RETENTION - 1, now - RETENTION + 1, 0}
    for key in [*KEYS, b"", b"none"]:
        of_key = {version.valid_from for version in expected.all(key)[-20:]}
        times = {max(0, time + step) for time in edges | of_key for step in (-1, 0, 1)}
        for time in (None, -1, 2**63 - 1, *random.sample(sorted(times), min(12, len(times)))):
            assert stored_as_of(reading, key, time) == expected.as_of(key, time), (key, time)
        for _ in range(8):
            first, last = sorted(random.choices(sorted(times), k=2))
            bounds = random.choice([(first, last), (None, last), (first, None), (None, None)])
            found = expected.between(key, *bounds)
            assert stored_between(reading, key, *bounds) == found, (key, bounds)
            assert stored_between(reading, key, *bounds, "DESCENDING") == found[::-1]


@pytest.mark.parametrize("seed", range(24))
async def test_any_puts_in_any_order_are_what_the_reference_says(make: Make, seed: int) -> None:
    random = Random(seed)
    cluster = await make()
    expected = Versions(RETENTION)
    around = random.choice([0, 100 * MINUTE, WALL])
    for batch in range(12):
        puts = some_puts(random, around)
        replace = batch > 0 and random.random() < 0.07
        await commit_rows(cluster.active(0), puts, batch=batch, position={}, replace=replace)
        expected.commit(puts, WALL, replace=replace)
        check(cluster, expected, random)
        around += random.choice([0, MINUTE, 7 * MINUTE, 40 * MINUTE])
        if random.random() < 0.2:
            await cluster.stop_pod(0)
            await cluster.start_pod(0)
            check(cluster, expected, random)
            expected.expired = 0
    text = cluster.nodes[0].pod.metrics.render(lambda: None).decode()
    assert f"qss_expired_records_total {float(expected.expired)}" in text
