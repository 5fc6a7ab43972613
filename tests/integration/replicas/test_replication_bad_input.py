"""Messages between replicas that are wrong or large get their own code, and change nothing."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from msgspec import msgpack
from msgspec.structs import replace

from qss_core.model import (
    Epoch,
    Offset,
    Ordinal,
    PartitionConfiguration,
    PartitionId,
    Sequence,
    StoreId,
)
from qss_core.wire.messages import encode
from qss_core.wire.replica_reports import UnlikeRows
from qss_store.replication.frames import FRAME_BYTES_MAX
from qss_store.replication.messages import (
    APPEND_PATH,
    COMPARE_PATH,
    DIGEST_VERSION,
    HELLO_PATH,
    SNAPSHOT_END_PATH,
    SNAPSHOT_PART_PATH,
    SNAPSHOT_PATH,
    UNLIKE_PATH,
    AppendRequest,
    CompareAnswer,
    CompareRequest,
    HelloRequest,
    SnapshotManifest,
    SnapshotPartRequest,
    SnapshotRequest,
    UnlikeRequest,
    decode_message,
    encode_message,
)
from qss_store.runtime.peer_client import REPLICATION_MEDIA
from qss_testing.clients.http import Answer
from qss_testing.pods.stores import configuration, open_rocksdb
from qss_testing.pods.write_cluster import WriteCluster, write_cluster

PATHS = (
    HELLO_PATH,
    APPEND_PATH,
    SNAPSHOT_PATH,
    SNAPSHOT_PART_PATH,
    SNAPSHOT_END_PATH,
    COMPARE_PATH,
    UNLIKE_PATH,
)
_TOO_HIGH = 2**53 + 1


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[WriteCluster]:
    """One partition, active on pod 0, with a standby on pod 1."""
    async with write_cluster(tmp_path, partitions=1, open_engine=open_rocksdb()) as cluster:
        await cluster.assign([configuration(0, 0, standbys=[1], epoch=2)])
        await cluster.until_led()
        yield cluster


async def send(cluster: WriteCluster, path: str, message: object, pod: int = 0) -> Answer:
    body = message if isinstance(message, bytes) else encode_message(message)
    return await cluster.pods[pod].internal.send(
        "POST", f"/{path}", body, {"Content-Type": REPLICATION_MEDIA}
    )


def refused(answer: Answer, status: int, code: str) -> None:
    assert (answer.status, json.loads(answer.body)["code"]) == (status, code), answer.body


def hello(cluster: WriteCluster, *configurations: PartitionConfiguration) -> HelloRequest:
    return HelloRequest(
        store_id=cluster.definition.store_id, sender=Ordinal(1), configurations=configurations
    )


@pytest.mark.parametrize("path", PATHS)
async def test_arrays_within_arrays_are_no_message(cluster: WriteCluster, path: str) -> None:
    refused(await send(cluster, path, b"\x81\xa1x" + b"\x91" * 100_000), 400, "MALFORMED_REQUEST")


async def test_a_hello_names_each_partition_of_the_store_once(cluster: WriteCluster) -> None:
    held = cluster.configurations[0]
    for wrong in ((held, held), (replace(held, partition=PartitionId(9)),)):
        answer = await send(cluster, HELLO_PATH, hello(cluster, *wrong))
        refused(answer, 400, "MALFORMED_REQUEST")
    answer = await send(cluster, HELLO_PATH, hello(cluster, *([held] * 100_000)))
    refused(answer, 413, "LIMIT_EXCEEDED")


async def test_copies_of_unknown_partitions_are_not_begun(cluster: WriteCluster) -> None:
    other = replace(cluster.configurations[0], partition=PartitionId(9), active=Ordinal(1))
    message = AppendRequest(
        store_id=cluster.definition.store_id,
        sender=Ordinal(1),
        lease_ms=1000,
        appends=(),
        copies=(other,),
    )
    refused(await send(cluster, APPEND_PATH, message), 400, "MALFORMED_REQUEST")
    assert cluster.pods[0].services.copies.tasks == []


async def test_an_epoch_that_no_planner_publishes_is_refused(cluster: WriteCluster) -> None:
    message = encode_message(hello(cluster, cluster.configurations[0]))
    before = encode_message(Epoch(2))
    forged = message.replace(b"epoch" + before, b"epoch" + encode_message(_TOO_HIGH))
    assert forged != message
    refused(await send(cluster, HELLO_PATH, forged), 400, "MALFORMED_REQUEST")
    assert encode(cluster.pods[0].pod.report()).count(b'"epoch":2') == 1


async def test_a_comparison_is_of_rows_that_the_active_may_have(cluster: WriteCluster) -> None:
    asked = CompareRequest(
        store_id=cluster.definition.store_id,
        sender=Ordinal(0),
        configuration=cluster.configurations[0],
        sequence=Sequence(0),
        rows=0,
    )
    for wrong in (replace(asked, rows=-1), replace(asked, rows=10**9), replace(asked, part=1)):
        refused(await send(cluster, COMPARE_PATH, wrong, pod=1), 400, "MALFORMED_REQUEST")
    refused(await send(cluster, COMPARE_PATH, asked, pod=0), 409, "STALE_EPOCH")
    other = replace(asked, configuration=replace(asked.configuration, epoch=Epoch(3)))
    refused(await send(cluster, COMPARE_PATH, other, pod=1), 409, "STALE_EPOCH")
    answer = await send(cluster, COMPARE_PATH, asked, pod=1)
    assert decode_message(answer.body, CompareAnswer).digest is not None
    newer = replace(asked, version=DIGEST_VERSION + 1)
    answer = await send(cluster, COMPARE_PATH, newer, pod=1)
    assert decode_message(answer.body, CompareAnswer).digest is None, "of another version"
    later = replace(asked, sequence=Sequence(1))
    answer = await send(cluster, COMPARE_PATH, later, pod=1)
    assert decode_message(answer.body, CompareAnswer).digest is None, "no such batch came"


def test_a_comparison_that_names_no_version_is_of_the_first_one() -> None:
    """Its sender is older than versions; the receiver may make digests of a later one."""
    asked = CompareRequest(
        store_id=StoreId("store-1"),
        sender=Ordinal(0),
        configuration=configuration(0, 0, standbys=[1]),
        sequence=Sequence(0),
        rows=0,
    )
    members = msgpack.decode(encode_message(asked))
    del members["version"]
    assert decode_message(msgpack.encode(members), CompareRequest).version == 1


async def test_an_active_of_another_epoch_tells_of_no_unlike_rows(cluster: WriteCluster) -> None:
    held = cluster.configurations[0]
    unlike = UnlikeRows(
        pods=(Ordinal(0), Ordinal(1)), epoch=Epoch(1), sequence=Sequence(0), offset=Offset(0)
    )
    message = UnlikeRequest(
        store_id=cluster.definition.store_id,
        sender=Ordinal(0),
        configuration=replace(held, epoch=Epoch(1)),
        unlike=unlike,
    )
    refused(await send(cluster, UNLIKE_PATH, message, pod=1), 409, "STALE_EPOCH")
    refused(
        await send(cluster, UNLIKE_PATH, replace(message, configuration=held)), 409, "STALE_EPOCH"
    )
    for pod in (0, 1):
        assert cluster.pods[pod].pod.registry.replicas[PartitionId(0)].health.unlike is None


async def test_a_snapshot_is_for_a_pod_that_has_a_replica(cluster: WriteCluster) -> None:
    message = SnapshotRequest(
        store_id=cluster.definition.store_id,
        sender=Ordinal(7),
        configuration=cluster.configurations[0],
    )
    refused(await send(cluster, SNAPSHOT_PATH, message), 400, "MALFORMED_REQUEST")


async def test_a_part_of_a_snapshot_is_within_a_file_and_counts_in_memory(
    cluster: WriteCluster,
) -> None:
    store_id = cluster.definition.store_id
    asked = SnapshotRequest(
        store_id=store_id, sender=Ordinal(1), configuration=cluster.configurations[0]
    )
    answer = await send(cluster, SNAPSHOT_PATH, asked)
    manifest = decode_message(answer.body, SnapshotManifest)
    file = min((one for one in manifest.files if one.size), key=lambda one: one.size)
    part = SnapshotPartRequest(
        store_id=store_id, snapshot=manifest.snapshot, file=file.name, offset=0, size=file.size
    )
    assert (await send(cluster, SNAPSHOT_PART_PATH, part)).status == 200
    for offset in (-1, 1, 2**63 - 1):
        wrong = await send(cluster, SNAPSHOT_PART_PATH, replace(part, offset=offset))
        refused(wrong, 400, "MALFORMED_REQUEST")
    memory = cluster.pods[0].pod.request_memory
    others = memory.share()
    others.take(memory.bytes_max - 2 * FRAME_BYTES_MAX + 1)
    refused(await send(cluster, SNAPSHOT_PART_PATH, part), 429, "LIMIT_EXCEEDED")
    others.close()
    assert (await send(cluster, SNAPSHOT_PART_PATH, part)).status == 200
