"""A small batch whose commit carries the rows is one request, and is applied exactly once."""

import zlib
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgspec
import pytest

from qss_client.chunks.carried_batch import (
    BATCH_MEDIA,
    CARRIED_BYTES_MAX,
    decode_batch,
    encode_batch,
)
from qss_client.chunks.chunk import encode_slice
from qss_core.errors import (
    BatchGapError,
    BatchMismatchError,
    MalformedBytesError,
    MalformedRequestError,
    StaleWriterError,
    StoreError,
    TooLargeError,
)
from qss_core.wire.messages import ChunkReference, CommitRequest
from qss_testing.faults.gates import Gate
from qss_testing.pods.pod_process import PodCluster
from qss_testing.pods.write_cluster import table_of
from qss_testing.waiting import wait_until
from qss_testing.writers.process_writer import (
    IMPATIENT,
    ProcessWriter,
    key_in,
    put_gates,
    sequences,
)

PODS = 3
ENVIRONMENT = {
    "QSS_MAINTENANCE_INTERVAL_S": "0.2",
    "QSS_FINISH_TIMEOUT_S": "5",
    "QSS_PEER_TIMEOUT_S": "60",
}


@pytest.fixture(scope="module")
def stage3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[PodCluster, list[Gate]]]:
    """Three pods with one partition and one gate each; pod 0 coordinates."""
    directory: Path = tmp_path_factory.mktemp("carried")
    cluster = PodCluster(directory, pods=PODS, partitions=PODS, environment=ENVIRONMENT)
    with ExitStack() as stack:
        gates = [stack.enter_context(Gate(pod.ports[1])) for pod in cluster.pods]
        put_gates(cluster, gates)
        stack.enter_context(cluster)
        yield cluster, gates


@pytest.fixture
def cluster(stage3: tuple[PodCluster, list[Gate]]) -> PodCluster:
    return stage3[0]


@pytest.fixture
def gates(stage3: tuple[PodCluster, list[Gate]]) -> list[Gate]:
    return stage3[1]


@pytest.fixture
def writer(cluster: PodCluster, request: pytest.FixtureRequest) -> Iterator[ProcessWriter]:
    writer = ProcessWriter(cluster, f"w{zlib.crc32(request.node.name.encode())}")
    writer.open()
    yield writer
    writer.close()


# --- Batches


def test_a_carried_batch_writes_its_rows_and_its_position_in_every_partition(
    cluster: PodCluster, writer: ProcessWriter
) -> None:
    before = sequences(cluster)[0]
    answer = writer.write(0, writer.rows_of("a"))
    assert answer.sequence == before + 1
    assert answer.position[f"input-{writer.name}"] == {"0": 0}
    assert sequences(cluster) == [before + 1] * PODS
    assert list(writer.values(cluster.pods[1]).values()) == ["a"] * PODS
    one = {1: {key_in(1, PODS, writer.name).encode(): None}}
    writer.write(1, one)
    assert list(writer.values(cluster.pods[2]).values()) == ["a"] * (PODS - 1)


def test_staged_and_carried_batches_follow_each_other(
    cluster: PodCluster, writer: ProcessWriter
) -> None:
    writer.write(0, writer.rows_of("a"))
    writer.commit(1, writer.stage(1, writer.rows_of("b")))
    writer.write(2, writer.rows_of("c"))
    assert set(writer.values(cluster.pods[0]).values()) == {"c"}


def test_a_repeat_changes_nothing_and_other_rows_are_refused(
    cluster: PodCluster, writer: ProcessWriter
) -> None:
    writer.write(0, writer.rows_of("a"))
    assert writer.write(0, writer.rows_of("a")).already_applied
    with pytest.raises(BatchMismatchError):
        writer.write(0, writer.rows_of("b"))
    writer.open()  # Another run may have read its input in another order.
    assert writer.write(0, writer.rows_of("b")).already_applied
    assert set(writer.values(cluster.pods[0]).values()) == {"a"}


def test_a_gap_and_a_fenced_run_are_refused(writer: ProcessWriter) -> None:
    writer.write(0, writer.rows_of("a"))
    with pytest.raises(BatchGapError):
        writer.write(2, writer.rows_of("a"))
    fenced = writer.run
    writer.open()
    writer.run = fenced
    with pytest.raises(StaleWriterError):
        writer.write(1, writer.rows_of("a"))


def test_chunks_of_an_older_attempt_are_dropped(cluster: PodCluster, writer: ProcessWriter) -> None:
    writer.stage(0, writer.rows_of("staged"))
    writer.open()
    writer.write(0, writer.rows_of("carried"))
    assert set(writer.values(cluster.pods[0]).values()) == {"carried"}
    url = f"{cluster.pods[1].ops}/metrics"
    staged = writer.http.request("GET", url).body.decode()
    assert "qss_staged_bytes 0.0" in staged


# --- Bad input


def body(value: bytes = b"1", **members: Any) -> bytes:
    """A batch with one row for partition 0."""
    request = CommitRequest(generation=1, chunks={}, position={}, fingerprint="f")
    rows = {key_in(0, PODS, "bad").encode(): value}
    changed = msgspec.structs.replace(request, **members)
    return encode_batch(changed, [encode_slice(0, table_of(rows))])


@pytest.mark.parametrize(
    ("data", "error", "says"),
    [
        (b"", MalformedBytesError, "ends inside"),
        (b"\x00\x00\xff\xff{}", MalformedBytesError, "ends inside"),
        (b"\x00\x00\x00\x02{}", MalformedRequestError, "CommitRequest"),
        (body() + b"x", MalformedBytesError, "Arrow"),
        (
            body(chunks={"0": (ChunkReference(id="1.t.0", records=1, checksum="aa"),)}),
            MalformedRequestError,
            "lists staged chunks and carries rows",
        ),
        (body(position={"@batch.x": {"0": 1}}), MalformedRequestError, "the store's own"),
        (b"x" * (CARRIED_BYTES_MAX + 1), TooLargeError, "larger than"),
        (
            encode_batch(
                CommitRequest(generation=1, chunks={}, position={}, fingerprint="f"),
                [encode_slice(1, table_of({key_in(0, PODS, "bad").encode(): b"1"}))],
            ),
            MalformedRequestError,
            "belongs to another partition",
        ),
        (body(b"no json"), MalformedRequestError, "a value is no json"),
    ],
)
def test_an_invalid_batch_is_refused_and_not_decided(
    cluster: PodCluster, writer: ProcessWriter, data: bytes, error: type[StoreError], says: str
) -> None:
    before = sequences(cluster)
    assert writer.run is not None
    path = f"writers/{writer.name}/{writer.run.opened.writer_epoch}/batches/0/commit"
    path += f"?storeId={writer.run.opened.store_id}"
    for pod in cluster.pods[:2]:  # The coordinator, and a pod that passes it on.
        url = f"{pod.internal}/changelog/stores/{cluster.store}/{path}"
        with pytest.raises(error, match=says):
            writer.http.request("POST", url, body=data, headers={"Content-Type": BATCH_MEDIA})
    assert sequences(cluster) == before


def test_a_batch_is_decoded_as_it_was_encoded() -> None:
    request, chunk = decode_batch(body(fingerprint="mine"))
    assert request.fingerprint == "mine"
    assert chunk == encode_slice(0, table_of({key_in(0, PODS, "bad").encode(): b"1"})).data


# --- Faults


def test_pods_killed_after_the_decision_apply_the_rows_from_the_log(
    cluster: PodCluster, gates: list[Gate], writer: ProcessWriter
) -> None:
    before = sequences(cluster)[0]
    gates[2].hold("/transactions/commit")
    writing = writer.in_background(lambda: writer.write(0, writer.rows_of("a"), IMPATIENT))
    gates[2].wait_for_arrival()
    wait_until(lambda: sequences(cluster)[:2] == [before + 1] * 2)
    for ordinal in (0, 2):
        cluster.pods[ordinal].kill()
    assert isinstance(writing.exception(), StoreError)
    gates[2].open()
    for ordinal in (2, 0):
        cluster.pods[ordinal].start()
    wait_until(lambda: sequences(cluster) == [before + 1] * PODS)
    assert list(writer.values(cluster.pods[1]).values()) == ["a"] * PODS
    writer.open()
    assert writer.write(0, writer.rows_of("a")).already_applied


def test_a_commit_without_an_answer_is_sent_again(
    cluster: PodCluster, gates: list[Gate], writer: ProcessWriter
) -> None:
    before = sequences(cluster)[0]
    gates[0].lose_answer("/commit", then=lambda: None)
    assert writer.write(0, writer.rows_of("a")).already_applied
    assert sequences(cluster) == [before + 1] * PODS
