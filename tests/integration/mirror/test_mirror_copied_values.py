"""What `qss mirror --store` makes of values: windows, computed columns, and times to live."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from qss_client import Store
from qss_core.model import StoreType
from qss_spark.mirroring.state_follower import StateFollower
from qss_testing.clients.terminal import Terminal
from qss_testing.pods.pod_process import PodCluster
from qss_testing.writers.committed_query import (
    MakeCluster,
    Query,
    copying,
    making_clusters,
    members,
    rows_in,
    steps_of,
)


@pytest.fixture
def make_cluster(tmp_path: Path) -> Iterator[MakeCluster]:
    with making_clusters(tmp_path) as make:
        yield make


def windows_in(cluster: PodCluster) -> set[tuple[str, int]]:
    """The keys and starts, in milliseconds, of a Window store."""
    with Store(cluster.url, cluster.store) as store:
        return {(row.key, row.start) for row in store.windows()}


def sessions_in(cluster: PodCluster) -> set[tuple[str, datetime, int]]:
    """The keys, starts and counts of a Session store; Spark's sessions end a gap later."""
    with Store(cluster.url, cluster.store) as store:
        rows = list(store.sessions())
    for row in rows:
        end = datetime.fromisoformat(row.value["session_window"]["end"])
        assert row.end == round(end.timestamp() * 1000) - 5_000
    return {
        (row.key, datetime.fromtimestamp(row.start / 1000, UTC), row.value["count"]) for row in rows
    }


def windows_of(query: Query) -> set[tuple[str, int]]:
    """The windows that Spark read from the state, as `windows_in`."""
    keys = (key for key, _ in query.expected[""])
    times = ((k, datetime.fromisoformat(start).replace(tzinfo=UTC)) for (start, _), k in keys)
    return {(k, round(start.timestamp() * 1000)) for k, start in times}


@pytest.mark.parametrize("way", ["hdfs", "rocksdb", "rocksdb-zstd"])
def test_sessions_are_those_of_the_state_after_each_batch(
    tmp_path: Path, make_cluster: MakeCluster, way: str
) -> None:
    """RocksDB has the keys of sessions in two parts; each batch is copied by another process."""
    query = Query(tmp_path, f"sessions-{way}")
    cluster = make_cluster(
        type=StoreType.SESSION,
        format="Plain",
        session_gap_ms=5_000,
        retention_ms=86_400_000,
        key_serde="string",
    )
    for batch in query.batches:
        query.commit(batch)
        with copying(cluster, query) as copy:
            assert [one.batch for one in steps_of(copy)] == [batch]
        whole = StateFollower(query.path, None, None).whole(batch).changed
        assert sessions_in(cluster) == {
            (row["key"]["k"], row["value"]["session_window"]["start"], row["value"]["count"])
            for row in whole.to_pylist()
        }
    assert len(sessions_in(cluster)) == len(query.expected[""])


def test_kept_rows_outlive_a_whole_state(tmp_path: Path, make_cluster: MakeCluster) -> None:
    """The whole state replaces no rows then: windows that have ended would be lost."""
    query = Query(tmp_path, "windows-hdfs")
    cluster = make_cluster(
        type=StoreType.WINDOW,
        window_size_ms=30_000,
        retention_ms=86_400_000,
        key_serde="string",
    )
    first, second, *_, last = query.batches
    query.commit(first)
    with copying(cluster, query, keep_deleted=True) as copy:
        steps_of(copy)
        before = windows_in(cluster)
    query.commit_all()
    query.forget(first)
    query.forget(second)
    with copying(cluster, query, keep_deleted=True) as copy:
        (written,) = steps_of(copy)
    assert (written.batch, written.is_whole) == (last, True)
    assert before - windows_of(query) != set()
    assert windows_in(cluster) == before | windows_of(query)


def test_values_are_the_computed_columns_and_other_ones_begin_anew(
    tmp_path: Path, make_cluster: MakeCluster
) -> None:
    query, cluster = Query(tmp_path, "aggregation-hdfs"), make_cluster()
    first, *others = query.batches
    query.commit(first)
    with copying(cluster, query, values=["mean=sum_1/count_1"]) as copy:
        steps_of(copy)
    assert all(list(value) == ["mean"] for value in rows_in(cluster).values())
    query.commit_all()
    with copying(cluster, query, values=["mean=sum_1/count_1"]) as copy:
        assert [one.is_whole for one in steps_of(copy)] == [False] * len(others)
    means = sorted(value[2] / value[3] for _, value in query.expected[""])
    assert sorted(value["mean"] for value in rows_in(cluster).values()) == means
    with copying(cluster, query, values=["n=count", "mean=sum_1/count_1"]) as copy:
        (written,) = steps_of(copy)
    assert (written.batch, written.is_whole) == (others[-1], True)
    assert all(list(value) == ["n", "mean"] for value in rows_in(cluster).values())
    with copying(cluster, query) as copy:
        assert [one.is_whole for one in steps_of(copy)] == [True]
    with copying(cluster, query) as copy:
        assert steps_of(copy) == []


def test_values_may_be_those_of_an_earlier_copy_without_a_new_batch(
    tmp_path: Path, make_cluster: MakeCluster
) -> None:
    query, cluster = Query(tmp_path, "aggregation-hdfs"), make_cluster()
    query.commit_all()
    for column in ("a", "b", "a"):
        with copying(cluster, query, values=[f"{column}=count"]) as copy:
            assert [one.is_whole for one in steps_of(copy)] == [True]
        assert all(list(value) == [column] for value in rows_in(cluster).values())


def test_an_unknown_column_is_refused_before_the_store_gets_a_writer(
    tmp_path: Path, make_cluster: MakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    query, cluster = Query(tmp_path, "windows-hdfs"), make_cluster()
    query.commit_all()
    terminal = Terminal(cluster.url, capsys)
    asked = ("mirror", str(query.path), "--store", cluster.store, "--once", "--value")
    refused = terminal.run(*asked, "mean=sum/count")
    assert refused.code == 2
    assert "the value mean has the column sum; the columns of the state are count" in refused.err
    assert terminal.json("writers", cluster.store) == []
    assert terminal.run(*asked, "n=count*2", "--value", "m=1").code == 0
    assert all(list(value) == ["n", "m"] for value in rows_in(cluster).values())


def test_opaque_columns_are_left_out_and_named_where_a_copy_begins(
    tmp_path: Path, make_cluster: MakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    query, cluster = Query(tmp_path, "collected-rocksdb"), make_cluster()
    query.commit_all()
    terminal = Terminal(cluster.url, capsys)
    asked = ("mirror", str(query.path), "--store", cluster.store, "--once")
    refused = terminal.run(*asked, "--value", "all=buf")
    assert refused.code == 2
    assert "the value all has the column buf, which is opaque. Only Spark" in refused.err
    assert terminal.json("writers", cluster.store) == []
    copied = terminal.run(*asked)
    assert copied.code == 0
    assert copied.err.startswith(f"{cluster.store}: buf, buf_1 of the values are opaque and left")
    assert sorted(value["count"] for value in rows_in(cluster).values()) == sorted(
        value[1] for _, value in query.expected[""]
    )
    assert {"count"} == {name for value in rows_in(cluster).values() for name in value}
    with copying(cluster, query, writer=cluster.store) as copy:
        assert steps_of(copy) == []


@pytest.mark.parametrize("part", ["last", "delays", "ports"])
@pytest.mark.parametrize("way", ["rocksdb", "rocksdb-zstd"])
def test_values_with_a_time_to_live_leave_the_store_when_spark_drops_them(
    tmp_path: Path, make_cluster: MakeCluster, way: str, part: str
) -> None:
    """Their expiry is beside the columns of the value."""
    query, cluster = Query(tmp_path, f"ttl-{way}"), make_cluster()
    sizes = []
    for batch in query.batches:
        query.commit(batch)
        with copying(cluster, query, part) as copy:
            assert [one.batch for one in steps_of(copy)] == [batch]
        found = list(rows_in(cluster).values())
        whole = StateFollower(query.path, None, part).whole(batch).changed
        assert sorted(found, key=json.dumps) == sorted(
            whole.column("value").to_pylist(), key=json.dumps
        )
        values = [one for row in found for one in (row if part == "delays" else [row])]
        sizes.append(len(values))
        assert all(list(one)[-1] == "ttlExpirationMs" for one in values)
    expected = [value if part == "delays" else [value] for _, value in query.expected[part]]
    wrapped = [[*value, expiry] for row in expected for value, expiry in row]
    assert sorted(map(members, values)) == sorted(wrapped)
    assert len(wrapped) == sizes[-1] < max(sizes)
