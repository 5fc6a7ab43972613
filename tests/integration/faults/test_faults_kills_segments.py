"""A pod is killed while a commit makes and drops segments; the next start completes the commit.

RocksDB writes a new OPTIONS file whenever a family is made or dropped: the number of files shows
how far the commit is.
"""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from qss_client.writes.batch import stage
from qss_core.errors import StoreError
from qss_core.formats.timed_keys import encode_window_key
from qss_core.formats.values import Format, decode_value
from qss_core.model import StoreType
from qss_store.storage.engine import META
from qss_store.storage.family_names import ColumnFamilies
from qss_store.storage.rocksdb.database import RocksDbEngine
from qss_store.storage.rocksdb.memory_budget import MemoryBudget
from qss_store.transactions.participant import Participant
from qss_testing.pods.pod_process import PodCluster
from qss_testing.pods.stores import Put, slice_of
from qss_testing.waiting import wait_until
from qss_testing.writers.process_writer import IMPATIENT, PATIENT, ProcessWriter, sequences

MINUTE = 60_000
# Segments of five minutes: the second batch ends two and begins two others.
OLD = [Put(f"{n:05}".encode(), b"1", start=n % 10 * MINUTE) for n in range(2_000)]
NEW = [Put(f"{n:05}".encode(), b"2", start=(20 + n % 10) * MINUTE) for n in range(40_000)]
CHANGES = 4  # The changes of families in the second batch.


@pytest.fixture(params=[False, True], ids=["windows", "duplicates"])
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[PodCluster]:
    with PodCluster(
        tmp_path,
        partitions=1,
        type=StoreType.WINDOW,
        window_size_ms=MINUTE,
        retention_ms=10 * MINUTE,
        retain_duplicates=request.param,
        environment={"QSS_MAINTENANCE_INTERVAL_S": "0.2"},
    ) as cluster:
        yield cluster


def write(writer: ProcessWriter, cluster: PodCluster, batch: int, rows: list[Put]) -> None:
    assert writer.run is not None
    one = slice_of(cluster.assignment.definition, 0, rows)
    writer.commit(batch, stage(writer.http, writer.run, batch, f"t{batch}", [one], PATIENT))


def write_to_the_last(writer: ProcessWriter, cluster: PodCluster, batch: int) -> bool:
    """Writes a batch during which the pod may be killed, and nobody repeats it.

    Returns whether it was acknowledged.
    """
    assert writer.run is not None
    one = slice_of(cluster.assignment.definition, 0, NEW)
    staged = stage(writer.http, writer.run, batch, f"t{batch}", [one], PATIENT)
    with suppress(StoreError):
        writer.commit(batch, staged, IMPATIENT)
        return True
    return False


def newest_options(cluster: PodCluster) -> int:
    files = (cluster.pods[0].volume / "partitions" / "0").glob("OPTIONS-*")
    return max(int(file.name.partition("-")[2]) for file in files if file.name[-1].isdigit())


@pytest.mark.parametrize("changes", range(1, CHANGES + 1))
def test_killed_after_so_many_segments_came_and_went(cluster: PodCluster, changes: int) -> None:
    pod = cluster.pods[0]
    writer = ProcessWriter(cluster, "w")
    writer.open()
    write(writer, cluster, 0, OLD)
    seen = {newest_options(cluster)}

    def has_changed() -> bool:
        seen.add(newest_options(cluster))
        return len(seen) > changes

    def is_over() -> bool:
        """A slow pod may still apply the commit when its request has ended."""
        return writing.done() and (writing.result() or sequences(cluster) == [2])

    writing = writer.in_background(lambda: write_to_the_last(writer, cluster, 1))
    wait_until(lambda: has_changed() or is_over(), 60.0)
    assert changes > 1 or not is_over(), "the first one comes before most of the rows"
    pod.kill()
    writing.result()
    pod.start()
    wait_until(lambda: sequences(cluster) == [2])
    writer.close()
    assert pod.stop() == 0
    check(cluster)


def check(cluster: PodCluster) -> None:
    """The disk holds only the second batch."""
    definition = cluster.assignment.definition
    budget = MemoryBudget.of(cache_bytes=1 << 20, write_buffer_bytes=1 << 20)
    engine = RocksDbEngine(cluster.pods[0].volume / "partitions" / "0", budget)
    participant = Participant.load(dict(engine.scan(META)))
    assert (participant.stream_time, participant.puts) == (29 * MINUTE, 42_000)
    families = ColumnFamilies.of(definition, participant.data_generation)
    assert families.leftovers(engine.families(), participant.stream_time) == []
    view = families.view(engine, participant.stream_time, {})
    rows = {key: decode_value(Format(definition.format), row) for key, row in view.scan()}
    numbers = range(2_001, 42_001) if definition.retain_duplicates else [0] * len(NEW)
    assert rows == {
        encode_window_key(row.key, row.start, number): b"2"
        for row, number in zip(NEW, numbers, strict=True)
    }
    view.close()
    engine.close()
