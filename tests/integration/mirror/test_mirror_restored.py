"""A checkpoint that was restored, or made anew, never continues a copy of what it was before.

And a checkpoint on a shared volume, which shows a commit before the files of its batch.
"""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from qss_client.http.sync_http import SyncHttp
from qss_client.writes.writers import delete_writer
from qss_core.errors import MalformedRequestError
from qss_spark.state.errors import StateGoneError
from qss_testing.pods.pod_process import PodCluster
from qss_testing.writers.committed_query import Query, copying, rows_in, steps_of


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[PodCluster]:
    with PodCluster(tmp_path / "pods", key_serde="json") as cluster:
        yield cluster


@pytest.fixture
def query(tmp_path: Path) -> Query:
    return Query(tmp_path, "aggregation-hdfs")


def put_back(query: Query, to: int) -> None:
    """Restores the checkpoint to a batch; the later ones will have other inputs."""
    for batch in query.batches:
        if batch > to:
            (query.path / "commits" / str(batch)).unlink()
            offsets = query.path / "offsets" / str(batch)
            offsets.write_text(
                offsets.read_text().replace('"batchTimestampMs":', '"batchTimestampMs":1')
            )


def test_a_copy_that_runs_begins_anew_once_its_checkpoint_went_back(
    query: Query, cluster: PodCluster
) -> None:
    first, *_, last = query.batches
    query.commit(first)
    with copying(cluster, query) as copy:
        steps_of(copy)
        held = rows_in(cluster)
        query.commit_all()
        assert not any(one.is_whole for one in steps_of(copy))
        assert rows_in(cluster) != held
        put_back(query, first)
        (written,) = steps_of(copy)
        assert (written.batch, written.is_whole) == (first, True)
        assert rows_in(cluster) == held
        query.commit_all()
        assert [one.is_whole for one in steps_of(copy)] == [False] * (len(query.batches) - 1)
        assert copy.last == last
    with copying(cluster, query) as copy:
        assert steps_of(copy) == []


@pytest.mark.parametrize("reaches", ["less", "as far"])
def test_a_copy_that_starts_sees_that_its_last_batch_has_other_inputs_now(
    query: Query, cluster: PodCluster, reaches: str
) -> None:
    first, *_, last = query.batches
    query.commit_all()
    with copying(cluster, query) as copy:
        steps_of(copy)
    put_back(query, first)
    if reaches == "as far":
        query.commit_all()
    newest = last if reaches == "as far" else first
    with copying(cluster, query) as copy:
        (written,) = steps_of(copy)
    assert (written.batch, written.is_whole) == (newest, True)
    with copying(cluster, query) as copy:
        assert (copy.last, steps_of(copy)) == (newest, [])


@pytest.mark.parametrize("runs", [True, False], ids=["that runs", "that starts"])
def test_a_copy_begins_anew_where_its_last_batch_ran_again_with_the_same_inputs(
    query: Query,
    cluster: PodCluster,
    runs: bool,
) -> None:
    """A query may give other rows for the same inputs, and a backup may have those of a batch."""
    *earlier, last = query.batches
    for batch in earlier:
        query.commit(batch)
    with copying(cluster, query) as copy:
        steps_of(copy)
        (query.path / "commits" / str(earlier[-1])).unlink()
        query.commit_all()
        if runs:
            (written,) = steps_of(copy)
    if not runs:
        with copying(cluster, query) as copy:
            (written,) = steps_of(copy)
    assert (written.batch, written.is_whole) == (last, True)
    with copying(cluster, query) as copy:
        assert (copy.last, steps_of(copy)) == (last, [])


def test_kept_rows_of_batches_that_were_given_up_leave_with_the_writer(
    tmp_path: Path, cluster: PodCluster
) -> None:
    """Such rows are like those of keys that the query has dropped: nothing tells them apart."""
    query = Query(tmp_path, "windows-hdfs")
    first, *_ = query.batches
    query.commit(first)
    with copying(cluster, query, keep_deleted=True) as copy:
        steps_of(copy)
        held = rows_in(cluster)
        query.commit_all()
        steps_of(copy)
        kept = rows_in(cluster)
        put_back(query, first)
        assert [one.is_whole for one in steps_of(copy)] == [True]
        assert rows_in(cluster) == kept != held
    with closing(SyncHttp()) as http:
        delete_writer(http, cluster.url, cluster.store, "mirror", force=True)
    with copying(cluster, query, keep_deleted=True) as copy:
        steps_of(copy)
    assert rows_in(cluster) == held


def test_a_copy_that_runs_refuses_another_query_in_its_checkpoint(
    query: Query, cluster: PodCluster
) -> None:
    first, second, *_ = query.batches
    query.commit(first)
    with copying(cluster, query) as copy:
        steps_of(copy)
        held = rows_in(cluster)
        (query.path / "metadata").write_text('{"id":"another"}')
        query.commit(second)
        with pytest.raises(MalformedRequestError, match=r"of another query now \(another\)"):
            copy.step()
    assert rows_in(cluster) == held


class LateFile:
    """The changes of a batch, which a volume does not show before the second look."""

    def __init__(self, query: Query, batch: int) -> None:
        self._file = query.path / "state" / "0" / "0" / f"{batch + 1}.delta"
        self._hidden = self._file.rename(query.path / "hidden")
        self.pauses_s: list[float] = []

    def pause(self, seconds: float) -> None:
        """Shows the file at the second pause."""
        self.pauses_s.append(seconds)
        if len(self.pauses_s) == 2:
            self._hidden.rename(self._file)


def test_changes_of_the_newest_batch_that_a_volume_shows_late_are_waited_for(
    query: Query, cluster: PodCluster
) -> None:
    first, second, *_, last = query.batches
    query.commit(first)
    late = LateFile(query, second)
    with copying(cluster, query, pause=late.pause) as copy:
        steps_of(copy)
        query.commit(second)
        assert [(one.batch, one.is_whole) for one in steps_of(copy)] == [(second, False)]
    assert len(late.pauses_s) == 2
    query.commit_all()
    late = LateFile(query, last)
    with copying(cluster, query, values=["n=count"], pause=late.pause) as copy:
        assert [(one.batch, one.is_whole) for one in steps_of(copy)] == [(last, True)]
    assert len(late.pauses_s) == 2


def test_the_wait_for_a_file_ends(query: Query, cluster: PodCluster) -> None:
    first, second, *_ = query.batches
    query.commit(first)
    LateFile(query, second)
    pauses_s: list[float] = []
    with copying(cluster, query, pause=pauses_s.append) as copy:
        steps_of(copy)
        query.commit(second)
        with pytest.raises(StateGoneError):
            copy.step()
    assert 2.0 < sum(pauses_s) < 4.0
