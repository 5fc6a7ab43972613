"""Pods are killed at chosen points of a batch: a decided batch is completed, others can be.

The pods are real processes; gates before their internal ports hold the message at which a pod is
killed.
"""

import zlib
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

from qss_core.errors import StoreError
from qss_testing.faults.gates import Gate
from qss_testing.pods.pod_process import PodCluster
from qss_testing.waiting import wait_until
from qss_testing.writers.process_writer import IMPATIENT, ProcessWriter, put_gates, sequences

PODS = 3
ENVIRONMENT = {
    "QSS_MAINTENANCE_INTERVAL_S": "0.2",
    "QSS_FINISH_TIMEOUT_S": "5",
    "QSS_PEER_TIMEOUT_S": "5",
}


class Stage3:
    """Three pods with a partition each, and a gate before each; pod 0 coordinates."""

    def __init__(self, cluster: PodCluster, gates: list[Gate]) -> None:
        self.cluster = cluster
        self.pods = cluster.pods
        self.gates = gates

    def restart(self, *ordinals: int) -> None:
        """Starts pods again, and waits until they have their partitions."""
        for ordinal in ordinals:
            self.pods[ordinal].start()
        for ordinal in ordinals:
            wait_until(partial(self._has_replicas, ordinal))

    def _has_replicas(self, ordinal: int) -> bool:
        report = self.pods[ordinal].report()
        return report is not None and len(report.replicas) == 1

    def kill(self, *ordinals: int) -> None:
        for ordinal in ordinals:
            self.pods[ordinal].kill()

    def wait_until_applied(self, sequence: int) -> None:
        wait_until(lambda: sequences(self.cluster) == [sequence] * PODS)

    def mend(self) -> None:
        """Repairs what a failed test left, for the next test."""
        for gate in self.gates:
            gate.open()
        self.restart(*(pod.ordinal for pod in self.pods if pod.process is None))

    @property
    def sequence(self) -> int:
        (one,) = set(sequences(self.cluster))
        return one


@pytest.fixture(scope="module")
def stage3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage3]:
    directory: Path = tmp_path_factory.mktemp("kills")
    cluster = PodCluster(directory, pods=PODS, partitions=PODS, environment=ENVIRONMENT)
    with ExitStack() as stack:
        gates = [stack.enter_context(Gate(pod.ports[1])) for pod in cluster.pods]
        put_gates(cluster, gates)
        stack.enter_context(cluster)
        yield Stage3(cluster, gates)


@pytest.fixture
def writer(stage3: Stage3, request: pytest.FixtureRequest) -> Iterator[ProcessWriter]:
    writer = ProcessWriter(stage3.cluster, f"w{zlib.crc32(request.node.name.encode())}")
    yield writer
    writer.close()
    stage3.mend()


def test_killed_while_staging_after_the_rows_were_taken(
    stage3: Stage3, writer: ProcessWriter
) -> None:
    before = stage3.sequence
    writer.open()
    stage3.gates[1].lose_answer("/chunks/", then=lambda: stage3.kill(1))
    staging = writer.in_background(lambda: writer.stage(0, writer.rows_of("a")))
    stage3.gates[1].wait_for_arrival()
    stage3.restart(1)
    staged = staging.result()
    assert len(staged) == PODS
    assert writer.commit(0, staged).sequence == before + 1
    assert set(writer.values(stage3.pods[0]).values()) == {"a"}
    assert len(writer.values(stage3.pods[0])) == PODS


def test_killed_while_preparing_the_coordinator_has_decided_nothing(
    stage3: Stage3, writer: ProcessWriter
) -> None:
    before = stage3.sequence
    writer.open()
    staged = writer.stage(0, writer.rows_of("a"))
    stage3.gates[1].hold("/transactions/prepare")
    committing = writer.in_background(lambda: writer.commit(0, staged, IMPATIENT))
    stage3.gates[1].wait_for_arrival()
    stage3.kill(0)
    assert isinstance(committing.exception(), StoreError)
    stage3.restart(0)
    stage3.gates[1].open()
    stage3.wait_until_applied(before)
    assert writer.values(stage3.pods[1]) == {}
    assert writer.commit(0, staged).sequence == before + 1
    assert set(writer.values(stage3.pods[0]).values()) == {"a"}


def test_killed_while_preparing_a_participant_is_waited_for(
    stage3: Stage3, writer: ProcessWriter
) -> None:
    before = stage3.sequence
    writer.open()
    staged = writer.stage(0, writer.rows_of("a"))
    stage3.gates[2].hold("/transactions/prepare")
    committing = writer.in_background(lambda: writer.commit(0, staged))
    stage3.gates[2].wait_for_arrival()
    stage3.kill(2)
    stage3.gates[2].open()
    stage3.restart(2)
    assert committing.result().sequence == before + 1
    assert len(writer.values(stage3.pods[2])) == PODS


def test_killed_after_the_decision_the_batch_is_completed_without_a_driver(
    stage3: Stage3, writer: ProcessWriter
) -> None:
    before = stage3.sequence
    writer.open()
    staged = writer.stage(0, writer.rows_of("a"))
    for ordinal in (1, 2):
        stage3.gates[ordinal].hold("/transactions/commit")
    committing = writer.in_background(lambda: writer.commit(0, staged, IMPATIENT))
    for ordinal in (1, 2):
        stage3.gates[ordinal].wait_for_arrival()
    stage3.kill(0, 1, 2)
    assert isinstance(committing.exception(), StoreError), "nobody drives it any more"
    for gate in stage3.gates:
        gate.open()
    stage3.restart(1, 2)
    assert sequences(stage3.cluster) == [before] * 2
    stage3.restart(0)
    stage3.wait_until_applied(before + 1)
    assert set(writer.values(stage3.pods[0]).values()) == {"a"}
    again = writer.open()
    assert again.opened.last_batch == 0
    assert writer.commit(0, []).already_applied


def test_killed_while_committing_with_one_partition_told_and_one_not(
    stage3: Stage3, writer: ProcessWriter
) -> None:
    before = stage3.sequence
    writer.open()
    staged = writer.stage(0, writer.rows_of("a"))
    stage3.gates[2].hold("/transactions/commit")
    committing = writer.in_background(lambda: writer.commit(0, staged, IMPATIENT))
    stage3.gates[2].wait_for_arrival()
    wait_until(lambda: sequences(stage3.cluster)[:2] == [before + 1] * 2)
    assert sequences(stage3.cluster)[2] == before
    stage3.kill(0, 2)
    assert isinstance(committing.exception(), StoreError)
    stage3.gates[2].open()
    stage3.restart(2, 0)
    stage3.wait_until_applied(before + 1)
    assert len(writer.values(stage3.pods[1])) == PODS


def test_killed_while_committing_a_participant_whose_answer_is_lost(
    stage3: Stage3, writer: ProcessWriter
) -> None:
    before = stage3.sequence
    writer.open()
    staged = writer.stage(0, writer.rows_of("a"))
    stage3.gates[1].lose_answer("/transactions/commit", then=lambda: stage3.kill(1))
    committing = writer.in_background(lambda: writer.commit(0, staged))
    stage3.gates[1].wait_for_arrival()
    stage3.restart(1)
    assert committing.result().sequence == before + 1
    assert sequences(stage3.cluster) == [before + 1] * PODS
    assert len(writer.values(stage3.pods[1])) == PODS


def test_killed_before_the_driver_hears_the_answer_the_batch_is_known(
    stage3: Stage3, writer: ProcessWriter
) -> None:
    before = stage3.sequence
    writer.open()
    staged = writer.stage(0, writer.rows_of("a"))
    stage3.gates[0].lose_answer("/batches/0/commit", then=lambda: stage3.kill(0))
    committing = writer.in_background(lambda: writer.commit(0, staged))
    stage3.gates[0].wait_for_arrival()
    stage3.restart(0)
    answer = committing.result()
    assert (answer.sequence, answer.already_applied) == (before + 1, True)
    assert len(writer.values(stage3.pods[0])) == PODS


def test_killed_while_opening_the_same_opening_gets_the_same_epoch(
    stage3: Stage3, writer: ProcessWriter
) -> None:
    stage3.gates[0].lose_answer(f"/writers/{writer.name}", then=lambda: stage3.kill(0))
    opening = writer.in_background(writer.open)
    stage3.gates[0].wait_for_arrival()
    stage3.restart(0)
    first = opening.result().opened.writer_epoch
    assert writer.open().opened.writer_epoch == first + 1, "the lost opening was the only one"
    writer.commit(0, writer.stage(0, writer.rows_of("a")))


@pytest.mark.parametrize("step", ["open", "stage", "commit"])
def test_a_driver_that_is_killed_is_followed_by_the_next_run(
    stage3: Stage3, writer: ProcessWriter, step: str
) -> None:
    before = stage3.sequence
    writer.open()
    if step != "open":
        writer.stage(0, writer.rows_of("dead"))
    if step == "commit":
        # The commit is under way when its sender is killed; it arrives later, or never.
        stage3.gates[0].hold("/batches/0/commit")
        with pytest.raises(StoreError):
            _commit_and_hang_up(writer, stage3.gates[0])
    next_run = writer.open()
    assert next_run.opened.last_batch is None
    stage3.gates[0].open()
    writer.commit(0, writer.stage(0, writer.rows_of("next")))
    assert set(writer.values(stage3.pods[0]).values()) == {"next"}
    assert sequences(stage3.cluster) == [before + 1] * PODS


def _commit_and_hang_up(writer: ProcessWriter, gate: Gate) -> None:
    assert writer.run is not None
    url = f"{gate.url}/changelog/stores/words/writers/{writer.name}"
    epoch = writer.run.opened.writer_epoch
    named = f"storeId={writer.run.opened.store_id}"
    body = b'{"generation":1,"chunks":{},"position":{},"fingerprint":"dead"}'
    writer.http.request("POST", f"{url}/{epoch}/batches/0/commit?{named}", body=body, timeout_s=0.2)
