"""The demo's mirror copies the state beside a job, and a kill of its process does not matter."""

import os
import signal
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from qss_spark.demo.mirror import Line, Mirror
from qss_spark.demo.processes import ProgramError
from qss_testing.pods.pod_process import PodCluster
from qss_testing.waiting import wait_until
from qss_testing.writers.committed_query import Query, copying, rows_in

NO_LINE: list[Line] = [None]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[PodCluster]:
    with PodCluster(tmp_path / "pods", key_serde="json") as cluster:
        yield cluster


@pytest.fixture
def query(tmp_path: Path) -> Query:
    return Query(tmp_path, "dedup-hdfs")


def mirror_of(query: Query, cluster: PodCluster, directory: Path, copy: str = "") -> Mirror:
    file = directory / "mirror.yaml"
    file.write_text(f"{{writer: demo, stores: [{{store: {cluster.store}{copy}}}]}}")
    return Mirror(query.path, file, ("--url", cluster.url), directory / "mirror.log")


def mirroring(query: Query) -> set[int]:
    """The processes that have the checkpoint as an argument."""
    found = set()
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # It has ended.
            arguments = (process / "cmdline").read_bytes().split(b"\0")
            if str(query.path).encode() in arguments:
                found.add(int(process.name))
    return found


def last_batch(query: Query, cluster: PodCluster) -> int | None:
    with copying(cluster, query, writer="demo") as copy:
        return copy.last


def test_a_job_is_mirrored_from_its_first_line_to_behind_its_last_one(
    tmp_path: Path, query: Query, cluster: PodCluster
) -> None:
    first, *_, last = query.batches

    def job() -> Iterator[Line]:
        yield None
        assert not mirroring(query), "there is no state yet"
        query.commit(first)
        yield {"batch": first}
        wait_until(lambda: rows_in(cluster))
        query.commit_all()

    lines = list(mirror_of(query, cluster, tmp_path).beside(job()))
    assert lines == [None, {"batch": first}]
    assert not mirroring(query)
    assert last_batch(query, cluster) == last
    assert len(rows_in(cluster)) == len(query.expected[""])


def test_a_mirror_that_is_killed_is_started_again(
    tmp_path: Path, query: Query, cluster: PodCluster
) -> None:
    first, second, *_ = query.batches

    def job() -> Iterator[Line]:
        query.commit(first)
        yield {"batch": first}
        wait_until(lambda: rows_in(cluster))
        (killed,) = mirroring(query)
        os.kill(killed, signal.SIGKILL)
        wait_until(lambda: not mirroring(query))
        while not mirroring(query):
            yield None
        query.commit(second)
        wait_until(lambda: f"batch {second}: " in (tmp_path / "mirror.log").read_text())

    list(mirror_of(query, cluster, tmp_path).beside(job()))
    assert last_batch(query, cluster) == second


def test_a_mirror_that_fails_ends_the_demo_with_what_it_said(
    tmp_path: Path, query: Query, cluster: PodCluster
) -> None:
    def job() -> Iterator[Line]:
        query.commit(query.batches[0])
        yield {"batch": 0}
        wait_until(lambda: "error: " in (tmp_path / "mirror.log").read_text())
        while True:
            yield None

    mirror = mirror_of(query, cluster, tmp_path, ", part: nothing")
    with pytest.raises(ProgramError, match=r"qss mirror ended with 2: see .*mirror\.log") as told:
        list(mirror.beside(job()))
    assert "the state has no such part" in str(told.value)


def test_a_job_that_ends_without_a_line_is_copied_at_its_end(
    tmp_path: Path, query: Query, cluster: PodCluster
) -> None:
    """As where an interrupted demo had only the verdict to give."""
    query.commit_all()
    assert list(mirror_of(query, cluster, tmp_path).beside(iter(NO_LINE))) == NO_LINE
    assert last_batch(query, cluster) == query.batches[-1]


def test_the_mirror_does_not_outlive_a_job_that_fails(
    tmp_path: Path, query: Query, cluster: PodCluster
) -> None:
    query.commit_all()
    lines: list[Line] = [{"batch": 0}, None]
    with closing(mirror_of(query, cluster, tmp_path).beside(iter(lines))) as progress:
        next(progress)
        wait_until(lambda: rows_in(cluster))
        assert mirroring(query)
    assert not mirroring(query)
