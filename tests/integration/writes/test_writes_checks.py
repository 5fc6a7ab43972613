"""Pods check rows and positions on arrival: readers do not wait, and no check comes later."""

import asyncio
import threading
from collections.abc import AsyncIterator
from hashlib import sha256
from pathlib import Path

import pyarrow as pa
import pytest

from qss_client.chunks.chunk import encode_slice
from qss_core.errors import MalformedRequestError
from qss_core.model import WriterEpoch
from qss_core.positions import (
    COMPONENTS_MAX,
    TOKEN_BYTES_MAX,
    Position,
    decode_token,
    grown_token_bytes,
)
from qss_core.serdes.registry import serde_of
from qss_core.wire.messages import CommitRequest
from qss_store.writes.participant_service import check_in_turns
from qss_store.writes.row_validation import RowValidator
from qss_testing.pods.write_cluster import WriteCluster, table_of, write_cluster

ROWS = {b"marker-key": b'"marker-value"'}
_ROWS = pa.schema([("key", pa.binary()), ("value", pa.binary())])


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[WriteCluster]:
    async with write_cluster(tmp_path) as cluster:
        yield cluster


async def test_the_token_of_a_position_fits_into_a_header(cluster: WriteCluster) -> None:
    writer = cluster.writer()
    epoch = await writer.epoch()
    unlike = {sha256(b"%d" % number).hexdigest(): {"0": 1} for number in range(1000)}
    refused = await writer.commit(epoch, 0, {}, position=unlike)
    assert "the position's token could grow" in refused.problem(413, "LIMIT_EXCEEDED")["detail"]
    alike = {f"team-orders-aggregate-{number:04}.source-0": {"0": number} for number in range(1000)}
    (await writer.commit(epoch, 0, {}, position=alike)).json()
    view = cluster.replica(0).view
    assert view is not None
    assert decode_token(view.token).to_json().keys() > alike.keys()
    assert len(view.token) < TOKEN_BYTES_MAX


async def test_a_position_with_long_names_is_refused_even_if_its_token_is_short(
    cluster: WriteCluster,
) -> None:
    writer = cluster.writer()
    epoch = await writer.epoch()
    long = {f"{number}{'t' * 3000}": {"0": 1} for number in range(200)}
    refused = await writer.commit(epoch, 0, {}, position=long)
    assert "the position would have" in refused.problem(413, "LIMIT_EXCEEDED")["detail"]


async def test_offsets_that_grow_never_stop_a_job(cluster: WriteCluster) -> None:
    """A token of the largest size, of names and offsets that zlib cannot compress."""
    writer = cluster.writer()
    epoch = await writer.epoch()
    names = [sha256(b"%d" % number).hexdigest() for number in range(COMPONENTS_MAX)]
    fitting = [n for n in range(len(names)) if grown(names[:n]) <= TOKEN_BYTES_MAX][-1]
    for batch, offset in enumerate((1, 2**39)):
        read = {
            name: {"0": offset + int(name[:8], 16) * bool(batch)} for name in names[: fitting - 5]
        }
        (await writer.commit(epoch, batch, {}, position=read)).json()
    view = cluster.replica(0).view
    assert view is not None
    assert len(view.token) < TOKEN_BYTES_MAX


def grown(names: list[str]) -> int:
    return grown_token_bytes(Position.of({name: {0: 1} for name in names}))


async def test_a_writer_that_is_deleted_makes_room_for_another(cluster: WriteCluster) -> None:
    full = {"topic": {str(partition): 1 for partition in range(COMPONENTS_MAX - 2)}}
    for name, position in (("first", full), ("second", {})):
        writer = cluster.writer(name=name)
        (await writer.commit(await writer.epoch(), 0, {}, position=position)).json()
    third = cluster.writer(name="third")
    epoch = await third.epoch()
    refused = await third.commit(epoch, 0, {}, position={})
    assert "qss writers" in refused.problem(413, "LIMIT_EXCEEDED")["detail"]
    await cluster.pods[0].coordination.delete_writer("second", force=True)
    (await third.commit(epoch, 0, {}, position={})).json()


async def test_a_decided_batch_is_applied_even_if_its_rows_would_be_refused_now(
    cluster: WriteCluster,
) -> None:
    """An older version of the coordinator may have decided a batch without the check."""
    slices = [
        encode_slice(partition, table_of(ROWS).append_column("timestamp", [[-5]]))
        for partition in range(4)
    ]
    request = CommitRequest(generation=1, chunks={}, position={}, fingerprint="f")
    pod, epoch = cluster.pods[0], WriterEpoch(await cluster.writer().epoch())
    rows = tuple(pod.batches.slices_of(b"".join(bytes(one.data) for one in slices)))
    with pytest.raises(MalformedRequestError, match="a timestamp is milliseconds"):
        await pod.batches.check_rows(rows)
    answer = await pod.coordination.commit("job", epoch, 0, request, rows)
    assert answer.sequence == 1
    assert all(cluster.rows(partition).keys() == ROWS.keys() for partition in range(4))


async def test_readers_run_while_rows_are_checked() -> None:
    turns = 0
    seen: list[int] = []
    threads: set[str] = set()

    class Spy(RowValidator):
        def check(self, rows: pa.RecordBatch) -> None:
            seen.append(turns)
            threads.add(threading.current_thread().name)
            super().check(rows)

    async def read() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    lists = serde_of("list<int32>")
    checks = Spy(serde_of("string"), lists)
    small, large = lists.encode([1]), lists.encode([1] * 10_000)
    rows = pa.record_batch({"key": [b"key"] * 150, "value": [small] * 150}, schema=_ROWS)
    reader = asyncio.create_task(read())
    await check_in_turns(checks, [rows] * 4)
    assert len(seen) == 4
    assert len(set(seen)) == 2  # The reader ran after two slices.
    assert threads == {threading.main_thread().name}
    large_row = pa.record_batch({"key": [b"large"], "value": [large]}, schema=_ROWS)
    await check_in_turns(checks, [large_row])
    assert len(threads) == 2
    reader.cancel()
