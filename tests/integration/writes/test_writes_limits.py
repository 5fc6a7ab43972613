"""Pods bound the bytes that they hold for writers, and each refusal names its limit."""

import asyncio
import re
from dataclasses import replace
from pathlib import Path

from qss_core.model import StoreSettings
from qss_testing.pods.write_cluster import SETTINGS, WriteCluster, chunk_of, write_cluster
from qss_testing.waiting import wait_until_async

ROWS = {0: {b"k": b"v" * 600}}
CHUNK = chunk_of(ROWS)


async def test_staged_rows_are_bounded_and_a_commit_makes_room(tmp_path: Path) -> None:
    limits = StoreSettings(staged_bytes_max=2 * len(CHUNK) + 10)
    async with write_cluster(tmp_path, pods=1, limits=limits) as cluster:
        writer = cluster.writer()
        epoch = await writer.epoch()
        staged = await writer.stage(epoch, 0, f"{epoch}.a.0", ROWS)
        await writer.stage(epoch, 0, f"{epoch}.b.0", ROWS)
        refused = await writer.put(epoch, 0, f"{epoch}.c.0", CHUNK)
        problem = refused.problem(507, "DISK_FULL")
        assert re.search(
            r"\d KiB are staged, and \d KiB more would exceed stagedBytesMax \(\d KiB\)",
            problem["detail"],
        )
        assert problem["details"]["limit"] == "stagedBytesMax"
        assert problem["retry"] == "later"
        (await writer.commit(epoch, 0, staged)).json()
        await writer.stage(epoch, 1, f"{epoch}.d.0", ROWS)
        assert cluster.pods[0].batches.staged_bytes() == len(CHUNK)


async def hold_a_request(cluster: WriteCluster, epoch: int, size: int) -> asyncio.StreamWriter:
    """Sends a stage request without its body."""
    path = f"/changelog/stores/words/writers/job/{epoch}/batches/0/chunks/{epoch}.slow.0"
    path += "?storeId=store-1&generation=1"
    _, sending = await asyncio.open_connection("127.0.0.1", cluster.ports[0])
    head = f"PUT {path} HTTP/1.1\r\nHost: pod\r\nContent-Length: {size}\r\n\r\n"
    sending.write(head.encode())
    metrics = cluster.pods[0].pod.metrics
    wanted = f"qss_uncommitted_bytes {float(size)}".encode()
    await wait_until_async(lambda: wanted in metrics.render(lambda: None))
    return sending


async def test_memory_for_chunks_in_transfer_is_bounded(tmp_path: Path) -> None:
    limits = StoreSettings(uncommitted_bytes_max=len(CHUNK))
    async with write_cluster(tmp_path, pods=1, limits=limits) as cluster:
        writer = cluster.writer()
        epoch = await writer.epoch()
        sending = await hold_a_request(cluster, epoch, 100)
        answer = await writer.put(epoch, 0, f"{epoch}.a.0", CHUNK)
        problem = answer.problem(429, "LIMIT_EXCEEDED")
        assert "uncommittedMaxBytes" in problem["detail"]
        assert problem["details"]["limit"] == "uncommittedMaxBytes"
        assert answer.headers["Retry-After"] == "1"
        sending.close()  # The client goes away, and its bytes are free again.
        metrics = cluster.pods[0].pod.metrics
        await wait_until_async(lambda: b"qss_uncommitted_bytes 0.0" in metrics.render(lambda: None))
        await writer.stage(epoch, 0, f"{epoch}.a.0", ROWS)


async def test_a_single_chunk_may_exceed_the_bound_and_minus_one_means_no_bound(
    tmp_path: Path,
) -> None:
    for bound in (1, -1):
        limits = StoreSettings(uncommitted_bytes_max=bound)
        async with write_cluster(tmp_path / str(bound), pods=1, limits=limits) as cluster:
            writer = cluster.writer()
            epoch = await writer.epoch()
            await writer.stage(epoch, 0, f"{epoch}.a.0", ROWS)
            if bound == -1:
                sending = await hold_a_request(cluster, epoch, 1000)
                await writer.stage(epoch, 0, f"{epoch}.b.0", ROWS)
                sending.close()


async def test_a_batch_whose_message_no_other_pod_would_read_is_not_decided(
    tmp_path: Path,
) -> None:
    """It was decided, the other pod refused each message, and the store took no other batch."""
    settings = replace(SETTINGS, message_bytes_max=2000)
    async with write_cluster(tmp_path, settings=settings) as cluster:
        writer = cluster.writer()
        epoch = await writer.epoch()
        chunks = await writer.stage(epoch, 0, f"{epoch}.a.0", ROWS)
        large = await writer.commit(epoch, 0, chunks, position={"t" * 1700: {"0": 0}})
        told = large.problem(413, "LIMIT_EXCEEDED")["detail"]
        assert "at most 2000 are read: let fewer tasks write" in told
        assert (await writer.commit(epoch, 0, chunks)).json()["sequence"] == 1
