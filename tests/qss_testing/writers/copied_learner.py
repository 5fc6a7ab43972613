"""Writes until a pod that was away has to copy the database of its active."""

import shutil
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from qss_testing.pods.write_cluster import (
    Rows,
    WriteCluster,
    Writer,
    lead,
    replica_of,
    replicated,
    write,
)
from qss_testing.waiting import wait_until_async


@asynccontextmanager
async def with_a_copied_learner(
    tmp_path: Path, rows: Mapping[int, Rows], *, is_lost: bool, **limits: int
) -> AsyncIterator[tuple[WriteCluster, Writer, int]]:
    """Pod 1 has copied the database: its volume, or its part of the log, was gone; epoch 3."""
    async with replicated(tmp_path, changelog_retention_bytes=1, **limits) as cluster:
        writer = cluster.writer(0)
        epoch = await writer.epoch()
        await write(writer, epoch, 0, rows)
        await cluster.stop_pod(1)
        if is_lost:
            shutil.rmtree(tmp_path / "1")
        await lead(cluster, 0, 3, learners=[1])
        for batch in range(1, 4):
            await write(writer, epoch, batch, {0: {f"k{batch}".encode(): b"x" * 1000}})
        active = replica_of(cluster, 0)
        active.apply_loop.cut_soon()
        await wait_until_async(lambda: active.log.start > 8)
        await cluster.start_pod(1)
        await cluster.assign(cluster.configurations)
        report = cluster.pods[0].pod.report
        await wait_until_async(lambda: report().replicas[0].caught_up == (1,))
        yield cluster, writer, epoch
