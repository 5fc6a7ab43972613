"""`qss mirror --store` copies open windows and sessions of a real query, batch by batch."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 the field's own habit.

from qss_client import Store
from qss_client.http.sync_http import SyncHttp
from qss_core.model import StoreType
from qss_spark import mirror
from qss_spark.mirroring.copies.state_copy import StateCopy, Written
from qss_spark.mirroring.state_follower import StateFollower
from qss_testing.pods.pod_process import PodCluster
from qss_testing.waiting import wait_until
from qss_testing.writers.streams import JsonStream

pytestmark = pytest.mark.spark

GAP_MS, SIZE_MS, DAY_MS = 5_000, 10_000, 86_400_000
STORES: dict[str, dict[str, Any]] = {
    "windows": {"type": StoreType.WINDOW, "window_size_ms": SIZE_MS},
    "sessions": {"type": StoreType.SESSION, "session_gap_ms": GAP_MS, "format": "Plain"},
}
Rows = set[tuple[str, int, int, int]]  # Key, start, end and count; times in seconds.
MakeStore = Callable[[str], PodCluster]


@pytest.fixture
def make_store(tmp_path: Path) -> Iterator[MakeStore]:
    with ExitStack() as stack:

        def make(kind: str) -> PodCluster:
            directory = tmp_path / f"pods-{len(list(tmp_path.glob('pods-*')))}"
            members = {"retention_ms": DAY_MS, "partitions": 2, **STORES[kind]}
            return stack.enter_context(PodCluster(directory, pods=1, **members))

        yield make


class Query:
    """A query in append mode; each batch has events of some keys at some seconds."""

    def __init__(self, spark: SparkSession, directory: Path, kind: str) -> None:
        self._spark = spark
        self._stream = JsonStream(spark, directory, "k string, t timestamp")
        late = self._stream.rows().withWatermark("t", "10 seconds")
        span = (
            F.window("t", "10 seconds") if kind == "windows" else F.session_window("t", "5 seconds")
        )
        self._rows: DataFrame = late.groupBy(span, "k").count()
        self.checkpoint = self._stream.checkpoint

    def run(self, *events: tuple[str, int]) -> None:
        times = [(k, datetime.fromtimestamp(at, UTC).isoformat()) for k, at in events]
        self._stream.write([{"k": k, "t": t} for k, t in times])
        self._stream.run(
            lambda rows, _: rows.write.format("noop").mode("append").save(), self._rows
        )

    def expected(self, kind: str) -> Rows:
        """The rows that Spark's own reader finds; a session ends with its last event."""
        found = self._spark.read.format("statestore").load(str(self.checkpoint))
        span = "key.window" if kind == "windows" else "value.session_window"
        start, end = (F.col(f"{span}.{one}").cast("long") for one in ("start", "end"))
        gap_s = 0 if kind == "windows" else GAP_MS // 1000
        rows = found.select("key.k", start, end - gap_s, "value.count").collect()
        return {(k, first, last, count) for k, first, last, count in rows}


def copy_into(cluster: PodCluster, query: Query, *, keep_deleted: bool = False) -> list[Written]:
    """Copies all committed batches as another process would: it knows only store and files."""
    with closing(SyncHttp()) as http:
        follower = StateFollower(query.checkpoint, None, None)
        copy = StateCopy(
            follower, http, cluster.url, cluster.store, "mirror", keep_deleted=keep_deleted
        )
        return list(iter(copy.step, None))


def rows_in(cluster: PodCluster, kind: str) -> Rows:
    with Store(cluster.url, cluster.store) as store:
        rows = store.windows() if kind == "windows" else store.sessions()
        return {(row.key, row.start // 1000, row.end // 1000, row.value["count"]) for row in rows}


def test_open_windows_are_rows_of_a_window_store_until_spark_drops_them(
    spark: SparkSession, tmp_path: Path, make_store: MakeStore
) -> None:
    query = Query(spark, tmp_path, "windows")
    followed, keeping = make_store("windows"), make_store("windows")
    batches = [[("a", 1), ("a", 5), ("b", 12)], [("a", 13), ("b", 15)], [("c", 40)]]
    for events in batches:
        query.run(*events)
        copy_into(followed, query)
        copy_into(keeping, query, keep_deleted=True)
        assert rows_in(followed, "windows") == query.expected("windows")
    assert rows_in(followed, "windows") == {("c", 40, 50, 1)}
    ended = {("a", 0, 10, 2), ("a", 10, 20, 1), ("b", 10, 20, 2)}
    assert rows_in(keeping, "windows") == {*ended, ("c", 40, 50, 1)}


def test_open_sessions_are_rows_of_a_session_store_whose_ends_move(
    spark: SparkSession, tmp_path: Path, make_store: MakeStore
) -> None:
    query = Query(spark, tmp_path, "sessions")
    followed, keeping = make_store("sessions"), make_store("sessions")
    batches = [[("a", 1), ("b", 2), ("a", 9)], [("a", 4), ("a", 15)], [("a", 12)], [("c", 60)]]
    seen = []
    for events in batches:
        query.run(*events)
        written = copy_into(followed, query)
        copy_into(keeping, query, keep_deleted=True)
        assert rows_in(followed, "sessions") == query.expected("sessions")
        seen.append((len(rows_in(followed, "sessions")), any(one.is_whole for one in written)))
    assert seen == [(3, True), (3, False), (2, False), (1, False)]
    whole = make_store("sessions")
    copy_into(whole, query)
    assert rows_in(whole, "sessions") == rows_in(followed, "sessions") == {("c", 60, 60, 1)}
    assert rows_in(keeping, "sessions") == {("a", 1, 15, 5), ("b", 2, 2, 1), ("c", 60, 60, 1)}


def test_a_thread_of_the_driver_copies_a_query_until_the_query_ends(
    spark: SparkSession, tmp_path: Path
) -> None:
    stream = JsonStream(spark, tmp_path, "k string, n long")
    counted = stream.rows().groupBy("k").agg(F.sum("n").alias("n"))
    started = counted.writeStream.format("noop").outputMode("update")
    query = started.option("checkpointLocation", str(stream.checkpoint)).start()
    with PodCluster(tmp_path / "pods", pods=1, key_serde="string") as cluster:
        running = mirror(query, cluster.store, url=cluster.url)
        try:
            stream.write([{"k": "a", "n": 1}], [{"k": "a", "n": 2}, {"k": "b", "n": 5}])
            query.processAllAvailable()
        finally:
            query.stop()
        wait_until(lambda: not running.is_running)
        running.stop()
        with Store(cluster.url, cluster.store) as store:
            assert {row.key: row.value["sum"] for row in store.range()} == {"a": 3, "b": 5}
