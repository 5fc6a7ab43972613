"""`qss mirror --store` copies the state of a query, batch by batch, whatever ends meanwhile.

The checkpoints are those that Spark wrote for `tests/contract`; a test commits their batches one by
one, as Spark did.
"""

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from qss_client import Store
from qss_client.http.sync_http import SyncHttp
from qss_client.writes.writers import delete_writer, list_writers
from qss_core.errors import MalformedRequestError, StaleWriterError
from qss_core.model import StoreType
from qss_spark.mirroring.copies.state_copy import StateCopy
from qss_spark.mirroring.rows.store_rows import StoreRows
from qss_spark.mirroring.state_follower import StateFollower
from qss_spark.mirroring.verification import verify
from qss_spark.state.checkpoint import Checkpoint
from qss_spark.state.errors import CheckpointError
from qss_testing.clients.terminal import Terminal
from qss_testing.pods.stores import make_definition
from qss_testing.writers.committed_query import (
    MakeCluster,
    Query,
    copying,
    making_clusters,
    members,
    rows_in,
    steps_of,
)

WINDOWS = {"type": StoreType.WINDOW, "retention_ms": 86_400_000, "key_serde": "string"}
SESSIONS = {**WINDOWS, "type": StoreType.SESSION, "format": "Plain"}


@pytest.fixture
def make_cluster(tmp_path: Path) -> Iterator[MakeCluster]:
    with making_clusters(tmp_path) as make:
        yield make


def plain_values(query: Query, part: str) -> list[Any]:
    """The members of the values that Spark read, without names, in the order of their text."""
    return sorted((members(value) for _, value in query.expected[part]), key=json.dumps)


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("processor-rocksdb", "last"),
        ("processor-rocksdb", "delays"),
        ("processor-rocksdb-zstd", "ports"),
        ("processor-rocksdb-zstd", "delays"),
        ("dedup-hdfs", ""),
        ("dedup-rocksdb-zstd", ""),
        ("of-all-rocksdb", ""),
        ("join-format-4-rocksdb", "left"),
        ("join-format-4-rocksdb-zstd", "right"),
        ("timers-rocksdb", "registered-timers"),
        ("scala-processor-rocksdb-zstd", "ports"),
        ("intervals-hdfs", ""),
    ],
)
def test_every_batch_leaves_what_spark_has(
    tmp_path: Path, make_cluster: MakeCluster, name: str, part: str
) -> None:
    """Each batch is copied by another process: it knows only what the store and the files have."""
    query, cluster = Query(tmp_path, name), make_cluster()
    for batch in query.batches:
        query.commit(batch)
        with copying(cluster, query, part) as copy:
            assert [one.batch for one in steps_of(copy)] == [batch]
    with copying(cluster, query, part) as copy:
        assert steps_of(copy) == []
    assert sorted(map(members, rows_in(cluster).values()), key=json.dumps) == plain_values(
        query, part
    )


def test_a_copy_that_begins_late_has_the_whole_state_at_once(
    tmp_path: Path, make_cluster: MakeCluster
) -> None:
    query, cluster = Query(tmp_path, "sessions-rocksdb"), make_cluster()
    query.commit_all()
    with copying(cluster, query) as copy:
        (written,) = steps_of(copy)
    assert (written.batch, written.is_whole) == (query.batches[-1], True)
    assert written.rows == len(query.expected[""]) == len(rows_in(cluster))
    for key, value in rows_in(cluster).items():
        assert list(json.loads(key)) == ["k", "sessionStartTime"]
        assert value["session_window"]["start"] == json.loads(key)["sessionStartTime"]
        assert value["session_window"]["start"].endswith("Z")


def test_keys_that_the_query_drops_leave_the_store(
    tmp_path: Path, make_cluster: MakeCluster
) -> None:
    """Sessions that have ended leave the state: `last` of k3 is cleared, too."""
    query, cluster = Query(tmp_path, "sessions-hdfs"), make_cluster()
    sizes = []
    for batch in query.batches:
        query.commit(batch)
        with copying(cluster, query) as copy:
            steps_of(copy)
        sizes.append(len(rows_in(cluster)))
    assert sizes[-1] == len(query.expected[""]) < max(sizes)


def test_a_batch_that_spark_has_deleted_is_made_up_for_by_the_whole_state(
    tmp_path: Path, make_cluster: MakeCluster
) -> None:
    query, cluster = Query(tmp_path, "processor-rocksdb-zstd"), make_cluster()
    first, second, *_, last = query.batches
    query.commit(first)
    pauses_s: list[float] = []
    with copying(cluster, query, "delays", pause=pauses_s.append) as copy:
        steps_of(copy)
        query.commit_all()
        query.forget(first)
        query.forget(second)
        (written,) = steps_of(copy)
    assert pauses_s == []
    assert (written.batch, written.is_whole) == (last, True)
    assert len(rows_in(cluster)) == len(query.expected["delays"])


def test_a_batch_that_is_committed_while_the_copy_looks_is_the_next_one_and_no_gap(
    tmp_path: Path, make_cluster: MakeCluster
) -> None:
    """A copy that took it for a gap would write the whole state again."""
    query, cluster = Query(tmp_path, "dedup-hdfs"), make_cluster()
    first, second, *_ = query.batches

    class Racing(Checkpoint):
        def is_committed(self, number: int) -> bool:
            found = super().is_committed(number)
            query.commit(number)
            return found

    query.commit(first)
    with copying(cluster, query) as copy:
        steps_of(copy)
    follower = StateFollower(query.path, None, None)
    follower.checkpoint = Racing(query.path)
    http = SyncHttp()
    try:
        copy = StateCopy(follower, http, cluster.url, cluster.store, "mirror")
        assert copy.step() is None
        query.commit(second)
        written = copy.step()
    finally:
        http.close()
    assert written is not None
    assert (written.batch, written.is_whole) == (second, False)


def test_a_state_in_other_partitions_is_copied_as_a_whole(
    tmp_path: Path, make_cluster: MakeCluster
) -> None:
    """Spark keeps no changes of a batch that moves the state to other partitions."""
    query, cluster = Query(tmp_path, "processor-rocksdb"), make_cluster()
    first, second, *_ = query.batches
    query.commit(first)
    offsets = query.path / "offsets" / str(second)
    before, after = (f'"spark.sql.shuffle.partitions":"{number}"' for number in (2, 1))
    assert before in offsets.read_text()
    offsets.write_text(offsets.read_text().replace(before, after))
    pauses_s: list[float] = []
    with copying(cluster, query, "delays", pause=pauses_s.append) as copy:
        steps_of(copy)
        query.commit(second)
        (written,) = steps_of(copy)
    assert pauses_s == []
    assert (written.batch, written.is_whole) == (second, True)


def test_a_second_copy_ends_the_first_one(tmp_path: Path, make_cluster: MakeCluster) -> None:
    query, cluster = Query(tmp_path, "dedup-hdfs"), make_cluster()
    query.commit(query.batches[0])
    with copying(cluster, query) as first:
        steps_of(first)
        with copying(cluster, query) as second:
            query.commit(query.batches[1])
            assert [one.batch for one in steps_of(second)] == [query.batches[1]]
            with pytest.raises(StaleWriterError):
                steps_of(first)


def test_a_store_takes_one_part_of_a_state(tmp_path: Path, make_cluster: MakeCluster) -> None:
    query, cluster = Query(tmp_path, "processor-rocksdb"), make_cluster()
    query.commit_all()
    with copying(cluster, query, "last") as copy:
        steps_of(copy)
    with (
        pytest.raises(MalformedRequestError, match="its own store"),
        copying(cluster, query, "ports"),
    ):
        pass


@pytest.mark.parametrize("part", ["last", "ports"])
def test_a_store_takes_the_copy_of_one_writer(
    tmp_path: Path, make_cluster: MakeCluster, part: str
) -> None:
    """The two copies would mix their rows: neither ends the other one."""
    query, cluster = Query(tmp_path, "processor-rocksdb"), make_cluster()
    query.commit(query.batches[0])
    with copying(cluster, query, "last", "x") as first:
        steps_of(first)
        with (
            pytest.raises(MalformedRequestError, match="qss writers words --delete x"),
            copying(cluster, query, part, "y"),
        ):
            pass
        query.commit_all()
        steps_of(first)
    assert len(rows_in(cluster)) == len(query.expected["last"])
    with closing(SyncHttp()) as http:
        delete_writer(http, cluster.url, cluster.store, "x", force=True)
    with copying(cluster, query, part, "y") as second:
        steps_of(second)
    assert len(rows_in(cluster)) == len(query.expected[part])


def test_of_two_copies_that_begin_together_the_earlier_one_stays(
    tmp_path: Path, make_cluster: MakeCluster
) -> None:
    query, cluster = Query(tmp_path, "processor-rocksdb"), make_cluster()
    query.commit(query.batches[0])
    with (
        copying(cluster, query, "last", "x") as first,
        copying(cluster, query, "ports", "y") as second,
    ):
        steps_of(first)
        with pytest.raises(MalformedRequestError, match="the writer x of store words copies"):
            steps_of(second)
        query.commit_all()
        steps_of(first)
    assert len(rows_in(cluster)) == len(query.expected["last"])
    with closing(SyncHttp()) as http:
        assert [one.name for one in list_writers(http, cluster.url, cluster.store)] == ["x"]


@pytest.mark.parametrize(
    ("definition", "name", "said"),
    [
        (
            {"key_serde": "string"},
            "sessions-hdfs",
            "k, sessionStartTime: the store needs key serde",
        ),
        ({"value_serde": "string"}, "sessions-hdfs", "the store needs value serde json"),
        ({"key_serde": "int64"}, "aggregation-hdfs", "batch 3: the key column k of the state has"),
        (
            {**WINDOWS, "window_size_ms": 1000},
            "windows-hdfs",
            "30 s long, and the windows of store wor",
        ),
        ({**WINDOWS, "window_size_ms": 30_000}, "sessions-hdfs", "is a Window store, and the keys"),
        ({**SESSIONS, "session_gap_ms": 1000}, "windows-hdfs", "is a Session store, and this st"),
        ({**SESSIONS, "session_gap_ms": 90_000}, "sessions-hdfs", "no session is shorter"),
    ],
)
def test_a_store_whose_serdes_do_not_fit_is_refused_before_it_gets_a_writer(
    tmp_path: Path, make_cluster: MakeCluster, definition: dict[str, str], name: str, said: str
) -> None:
    """The store would belong to that part, and refuse the one that fits."""
    query, cluster = Query(tmp_path, name), make_cluster(**definition)
    query.commit_all()
    with copying(cluster, query) as copy, pytest.raises(MalformedRequestError, match=said):
        copy.step()
    with closing(SyncHttp()) as http:
        assert list_writers(http, cluster.url, cluster.store) == ()


def test_state_without_changelogs_is_refused_before_the_store_gets_a_writer(
    tmp_path: Path, make_cluster: MakeCluster
) -> None:
    query, cluster = Query(tmp_path, "dedup-rocksdb"), make_cluster()
    query.commit_all()
    for file in (query.path / "state").rglob("*.changelog"):
        file.unlink()
    with (
        copying(cluster, query) as copy,
        pytest.raises(CheckpointError, match=r"changelogCheckpointing\.enabled=true"),
    ):
        copy.step()
    with closing(SyncHttp()) as http:
        assert list_writers(http, cluster.url, cluster.store) == ()


def test_a_comparison_names_a_key_that_several_rows_have(make_cluster: MakeCluster) -> None:
    key, value = pa.struct([("k", pa.string())]), pa.struct([("n", pa.int64())])
    cluster = make_cluster()
    rows = StoreRows(make_definition(key_serde="json"), key, value)
    by_spark = pa.table(
        {
            "key": pa.array([{"k": "a"}, {"k": "a"}], key),
            "value": pa.array([{"n": 1}, {"n": 1}], value),
        }
    )
    with Store(cluster.url, cluster.store, raw=True) as store:
        verdict = verify(by_spark, store, 0, rows, keep_deleted=False)
    assert (verdict.rows, verdict.unlike) == (2, 1)
    assert verdict.differences == ('"a" is the key of several rows of Spark',)


def test_a_part_has_to_be_chosen_where_there_are_several(tmp_path: Path) -> None:
    query = Query(tmp_path, "join-hdfs")
    query.commit_all()
    with pytest.raises(CheckpointError, match="several parts: choose one of --operator 0 --part l"):
        StateFollower(query.path, None, None)
    with pytest.raises(CheckpointError, match="no such part"):
        StateFollower(query.path, 1, "left")


def test_the_command_copies_to_the_newest_batch_and_closes_its_run(
    tmp_path: Path, make_cluster: MakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    query, cluster = Query(tmp_path, "dedup-hdfs"), make_cluster()
    query.commit_all()
    terminal = Terminal(cluster.url, capsys)
    asked = ("mirror", str(query.path), "--store", cluster.store, "--once")
    done = terminal.run(*asked)
    assert done.code == 0
    newest = f"batch {query.batches[-1]}"
    assert done.out.startswith(f"{cluster.store}: {newest}: the whole state, 12 rows, ")
    assert terminal.run(*asked).out == f"{cluster.store}: the store has {newest}\n"
    (writer,) = terminal.json("writers", cluster.store)
    assert writer["state"] == "closed"
    refused = terminal.run("mirror", str(query.path), "--part", "x")
    assert refused.code == 2
    assert refused.err == "error: MALFORMED_REQUEST: --part: only with --store or --file\n"
