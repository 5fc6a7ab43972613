"""A commit's answer counts rows that no reader sees; an abort does not deny a decided batch."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from qss_client.chunks.chunk import encode_slice
from qss_core.model import StoreType
from qss_core.wire.messages import ChunkReference
from qss_testing.pods.write_cluster import WriteCluster, table_of, write_cluster

MINUTE = 60_000
DAY = 24 * 60 * MINUTE


async def put(
    cluster: WriteCluster, epoch: int, batch: int, partition: int, times: list[int]
) -> ChunkReference:
    """Stages a row for each time: the start of a window, or the time of a version."""
    rows = table_of({f"k{number}".encode(): b'"v"' for number, _ in enumerate(times)})
    is_window = cluster.definition.type is StoreType.WINDOW
    column = "window_start" if is_window else "timestamp"
    rows = rows.append_column(column, pa.array(times, pa.int64()))
    one = encode_slice(partition, rows)
    chunk = f"{epoch}.t{batch}.0"
    answer = await cluster.writer(partition).put(epoch, batch, chunk, bytes(one.data))
    assert answer.status == 200, answer.body
    return ChunkReference(id=chunk, records=len(times), checksum=one.checksum)


@pytest.mark.parametrize("partition", [0, 1])  # On the coordinator's pod, and on the other pod.
@pytest.mark.parametrize(
    ("type_", "retention"),
    [(StoreType.WINDOW, "retention_ms"), (StoreType.VERSIONED, "history_retention_ms")],
)
async def test_a_commit_and_its_repeat_say_how_many_rows_were_dropped(
    tmp_path: Path, partition: int, type_: StoreType, retention: str
) -> None:
    timed: dict[str, Any] = {"type": type_, "format": "Plain", retention: 10 * MINUTE}
    async with write_cluster(tmp_path, **timed) as cluster:
        writer = cluster.writer()
        epoch = await writer.epoch()
        first = await put(cluster, epoch, 0, partition, [DAY])
        answer = await writer.commit(epoch, 0, {partition: [first]})
        assert answer.json()["dropped"] == {}

        # Behind the retention: the window's, by the next time, in a segment that lives.
        hidden = DAY - (9 if type_ is StoreType.WINDOW else 11) * MINUTE
        second = await put(cluster, epoch, 1, partition, [0, hidden, DAY + MINUTE])
        for is_repeat in (False, True):
            answer = await writer.commit(epoch, 1, {partition: [second]})
            assert answer.json()["alreadyApplied"] is is_repeat
            assert answer.json()["dropped"] == {str(partition): 2}


async def test_an_abort_after_a_take_over_does_not_deny_a_decision(tmp_path: Path) -> None:
    async with write_cluster(tmp_path) as cluster:
        writer = cluster.writer()
        epoch = await writer.epoch()
        (await writer.commit(epoch, 0, {})).json()
        await writer.epoch("run-2", "other", takeOver=True)
        (await writer.abort(epoch, 0)).problem(409, "STALE_WRITER")
