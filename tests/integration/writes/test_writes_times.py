"""Pods take chunks of windows and sessions, or refuse them and name the missing columns."""

from collections.abc import AsyncIterator
from pathlib import Path

import pyarrow as pa
import pytest

from qss_client.chunks.chunk import encode_slice
from qss_core.formats.timed_keys import encode_session_key, encode_window_key
from qss_core.model import StoreType
from qss_core.wire.messages import ChunkReference
from qss_testing.pods.write_cluster import WriteCluster, chunk_of, table_of, write_cluster

MINUTE = 60_000
ROWS = {b"k": b'"v"'}
START = {"window_start": MINUTE}
TIMES = {"session_start": MINUTE, "session_end": 2 * MINUTE}
KINDS = {StoreType.WINDOW: START, StoreType.SESSION: TIMES}


@pytest.fixture(params=list(KINDS))
async def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[WriteCluster]:
    definition = {"type": request.param, "format": "Plain", "retention_ms": 10 * MINUTE}
    async with write_cluster(tmp_path, **definition) as cluster:
        yield cluster


def chunk_at(times: dict[str, int | None], partition: int = 0) -> bytes:
    table = table_of(ROWS)
    for name, time in times.items():
        table = table.append_column(name, pa.array([time], pa.int64()))
    schema = table.schema.with_metadata({"partition": str(partition)})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as stream:
        stream.write_table(table)
    data: bytes = sink.getvalue().to_pybytes()
    return data


async def test_a_batch_of_every_partition_is_written_and_moves_its_stream_time(
    cluster: WriteCluster,
) -> None:
    times = KINDS[cluster.definition.type]
    writer = cluster.writer()
    epoch = await writer.epoch()
    chunks: dict[int, list[ChunkReference]] = {}
    for partition in (0, 1):
        table = table_of(ROWS)
        for name, time in times.items():
            table = table.append_column(name, pa.array([time * (1 + partition)], pa.int64()))
        one = encode_slice(partition, table)
        chunk = f"{epoch}.t.{partition}"
        answer = await cluster.writer(partition).put(epoch, 0, chunk, bytes(one.data))
        assert answer.status == 200, answer.body
        reference = ChunkReference(id=chunk, records=1, checksum=one.checksum)
        chunks[partition] = [reference]
    assert (await writer.commit(epoch, 0, chunks)).status == 200
    for partition, factor in ((0, 1), (1, 2)):
        view = cluster.replica(partition).view
        assert view is not None
        start = MINUTE * factor
        is_window = cluster.definition.type is StoreType.WINDOW
        row_key = (
            encode_window_key(b"k", start)
            if is_window
            else encode_session_key(b"k", start, 2 * start)
        )
        assert list(view.rows.scan()) == [(row_key, b'"v"')]
        assert view.stream_time == (start if is_window else 2 * start)
    untouched = cluster.replica(2).view
    assert untouched is not None
    assert (untouched.stream_time, untouched.sequence) == (-1, 1)


async def test_a_chunk_without_times_is_refused_and_the_missing_columns_are_named(
    cluster: WriteCluster,
) -> None:
    writer = cluster.writer()
    epoch = await writer.epoch()
    answer = await writer.put(epoch, 0, f"{epoch}.t.0", chunk_of({0: ROWS}))
    detail = answer.problem(400, "MALFORMED_REQUEST")["detail"]
    for name in KINDS[cluster.definition.type]:
        assert f"then {name}: int64" in detail
    assert cluster.staged() == set()


@pytest.mark.parametrize("time", [None, -1])
async def test_an_invalid_time_is_refused_and_nothing_is_staged(
    cluster: WriteCluster, time: int | None
) -> None:
    times = {**KINDS[cluster.definition.type]}
    name = next(iter(times))
    writer = cluster.writer()
    epoch = await writer.epoch()
    answer = await writer.put(epoch, 0, f"{epoch}.t.0", chunk_at({**times, name: time}))
    assert name in answer.problem(400, "MALFORMED_REQUEST")["detail"]
    assert cluster.staged() == set()


async def test_a_keyvalue_store_takes_no_times(tmp_path: Path) -> None:
    async with write_cluster(tmp_path) as cluster:
        writer = cluster.writer()
        epoch = await writer.epoch()
        answer = await writer.put(epoch, 0, f"{epoch}.t.0", chunk_at({**START}))
        detail = answer.problem(400, "MALFORMED_REQUEST")["detail"]
        assert "a store of type KeyValue has the columns" in detail
