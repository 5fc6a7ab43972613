"""A pod is killed while a commit moves versions into history; the next start completes it.

RocksDB writes a new OPTIONS file whenever a family is made or dropped: the number of files shows
how far the commit is.
"""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from qss_client.writes.batch import stage
from qss_core.errors import StoreError
from qss_core.model import StoreType
from qss_store.storage.engine import META
from qss_store.storage.family_names import ColumnFamilies
from qss_store.storage.rocksdb.database import RocksDbEngine
from qss_store.storage.rocksdb.memory_budget import MemoryBudget
from qss_store.storage.views.versioned import VersionedView
from qss_store.transactions.participant import Participant
from qss_testing.pods.pod_process import PodCluster
from qss_testing.pods.stores import Put, slice_of
from qss_testing.reference.versions import Versions, stored_rows
from qss_testing.waiting import wait_until
from qss_testing.writers.process_writer import IMPATIENT, PATIENT, ProcessWriter, sequences

pytestmark = pytest.mark.long

MINUTE = 60_000
RETENTION = 10 * MINUTE
KEYS = 2_000


def puts(first: int, last: int, value: bytes) -> list[Put]:
    """One put a minute for each key; odd keys come late, and every seventh put deletes."""
    minutes = [*range(first, last, 2), *range(first + 1, last, 2)]
    return [
        Put(b"%05d" % key, None if (key + minute) % 7 == 0 else value, minute * MINUTE)
        for minute in minutes
        for key in range(KEYS)
    ]


OLD = puts(0, 2, b"1")
NEW = puts(0, 30, b"2")  # The old segments end, and some of the new ones.


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[PodCluster]:
    with PodCluster(
        tmp_path,
        partitions=1,
        type=StoreType.VERSIONED,
        format="Plain",
        history_retention_ms=RETENTION,
        environment={"QSS_MAINTENANCE_INTERVAL_S": "0.2"},
    ) as cluster:
        yield cluster


def newest_options(cluster: PodCluster) -> int:
    files = (cluster.pods[0].volume / "partitions" / "0").glob("OPTIONS-*")
    return max(int(file.name.partition("-")[2]) for file in files if file.name[-1].isdigit())


@pytest.mark.parametrize("changes", [1, 2, 3])
def test_killed_after_so_many_segments_came_and_went(cluster: PodCluster, changes: int) -> None:
    pod = cluster.pods[0]
    writer = ProcessWriter(cluster, "w")
    writer.open()
    assert writer.run is not None
    definition = cluster.assignment.definition
    for batch, rows in enumerate((OLD, NEW)):
        one = slice_of(definition, 0, rows)
        staged = stage(writer.http, writer.run, batch, f"t{batch}", [one], PATIENT)
        if batch == 0:
            writer.commit(batch, staged)
    seen = {newest_options(cluster)}

    def commit() -> bool:
        """Whether the commit was acknowledged; nobody repeats it."""
        with suppress(StoreError):
            writer.commit(1, staged, IMPATIENT)
            return True
        return False

    def is_over() -> bool:
        """A slow pod may still apply the commit when its request has ended."""
        return writing.done() and (writing.result() or sequences(cluster) == [2])

    def has_changed() -> bool:
        seen.add(newest_options(cluster))
        return len(seen) > changes

    writing = writer.in_background(commit)
    wait_until(lambda: has_changed() or is_over(), 60.0)
    assert changes > 1 or not is_over(), "the first one comes before most of the rows"
    pod.kill()
    writing.result()
    pod.start()
    wait_until(lambda: sequences(cluster) == [2], 60.0)
    writer.close()
    assert pod.stop() == 0
    check(cluster)


def check(cluster: PodCluster) -> None:
    """The disk holds only the versions of both batches."""
    expected = Versions(RETENTION)
    expected.commit(OLD)
    expected.commit(NEW)
    budget = MemoryBudget.of(cache_bytes=1 << 20, write_buffer_bytes=1 << 20)
    engine = RocksDbEngine(cluster.pods[0].volume / "partitions" / "0", budget)
    participant = Participant.load(dict(engine.scan(META)))
    assert participant.stream_time == expected.stream_time
    families = ColumnFamilies.of(cluster.assignment.definition, participant.data_generation)
    assert families.leftovers(engine.families(), participant.stream_time) == []
    view = families.view(engine, participant.stream_time, {})
    assert isinstance(view, VersionedView)
    assert stored_rows(view) == expected.rows()
    view.close()
    engine.close()
