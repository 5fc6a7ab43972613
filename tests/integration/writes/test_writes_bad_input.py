"""Each wrong request of a writer has its code; nothing is staged, and no row is logged."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from qss_client.chunks.chunk import HEADERS_BYTES_MAX, KEY_BYTES_MAX, VALUE_BYTES_MAX
from qss_core.model import Partitioner
from qss_core.partitioning import partition_of
from qss_core.positions import COMPONENTS_MAX
from qss_store.runtime.settings import Settings
from qss_store.transactions.position_limits import commit_bytes_max
from qss_testing.pods.stores import configuration
from qss_testing.pods.write_cluster import (
    WriteCluster,
    chunk_of,
    reference_of,
    table_of,
    write_cluster,
)
from qss_testing.waiting import wait_until_async

ROWS = {b"marker-key": b'"marker-value"'}


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[WriteCluster]:
    async with write_cluster(tmp_path) as cluster:
        yield cluster


def stream_of(table: pa.Table, partition: str | None = "0") -> bytes:
    """An Arrow stream with a table and the metadata of a partition."""
    metadata = None if partition is None else {"partition": partition}
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema.with_metadata(metadata)) as stream:
        stream.write_table(table)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def with_headers(size: int) -> pa.Table:
    headers = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    row = [{"key": "h", "value": b"x" * size}]
    return table_of(ROWS).append_column("headers", pa.array([row], headers))


GOOD = chunk_of({0: ROWS})
BINARY = pa.binary()


@pytest.mark.parametrize(
    ("body", "status", "code", "word"),
    [
        (b"nonsense", 400, "MALFORMED_BYTES", "Arrow"),
        (GOOD[:-1], 400, "MALFORMED_BYTES", "Arrow"),
        (GOOD[:-8], 400, "MALFORMED_BYTES", "cut off"),
        (GOOD + b"x", 400, "MALFORMED_BYTES", "Arrow"),
        (GOOD + GOOD, 400, "MALFORMED_REQUEST", "one slice for each partition"),
        (stream_of(table_of(ROWS), None), 400, "MALFORMED_REQUEST", "partition"),
        (stream_of(table_of(ROWS), "zero"), 400, "MALFORMED_REQUEST", "partition"),
        (stream_of(pa.table({"key": pa.array([b"k"])})), 400, "MALFORMED_REQUEST", "columns"),
        (
            stream_of(pa.table({"key": pa.array(["k"]), "value": pa.array([b"v"])})),
            400,
            "MALFORMED_REQUEST",
            "binary",
        ),
        (
            stream_of(pa.table({"key": pa.array([None], BINARY), "value": pa.array([b"v"])})),
            400,
            "NULL_KEY",
            "no key",
        ),
        (chunk_of({0: {b"k" * (KEY_BYTES_MAX + 1): b"v"}}), 413, "LIMIT_EXCEEDED", "a key has"),
        (chunk_of({0: {b"k": b"v" * (VALUE_BYTES_MAX + 1)}}), 413, "LIMIT_EXCEEDED", "a value has"),
        (stream_of(with_headers(HEADERS_BYTES_MAX)), 413, "LIMIT_EXCEEDED", "headers have"),
    ],
)
async def test_a_wrong_chunk_is_refused(
    cluster: WriteCluster,
    body: bytes,
    status: int,
    code: str,
    word: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    writer = cluster.writer()
    epoch = await writer.epoch()
    with caplog.at_level(logging.INFO):
        answer = await writer.put(epoch, 0, f"{epoch}.task.0", body)
    assert word in answer.problem(status, code)["detail"]
    assert b"marker" not in answer.body
    assert cluster.staged() == set()
    told = [record for record in caplog.records if record.name.startswith("qss")]
    assert all(record.name == "qss_store.http.refusal_log" for record in told)
    assert not any("marker" in record.getMessage() for record in told)
    (await writer.commit(epoch, 0, {})).json()


async def test_a_key_that_hashes_elsewhere_is_refused(tmp_path: Path) -> None:
    async with write_cluster(tmp_path, partitioner=Partitioner.MURMUR2) as cluster:
        writer = cluster.writer()
        epoch = await writer.epoch()
        wrong = 0 if partition_of(b"a", 4) else 2
        refused = await writer.put(epoch, 0, f"{epoch}.task.0", chunk_of({wrong: {b"a": b"1"}}))
        assert "belongs to another partition" in refused.problem(400, "MALFORMED_REQUEST")["detail"]
        assert cluster.staged() == set()


@pytest.mark.parametrize(
    ("key", "value", "what"),
    [
        (b"a", b"not json", "a value is no json"),
        (b"a", b'{"v":"\xff"}', "a value is no json"),
        (b"\x01", b"1", "a key is no int64"),
    ],
)
async def test_rows_that_no_query_could_decode_are_refused(
    tmp_path: Path, key: bytes, value: bytes, what: str
) -> None:
    key_serde = "int64" if what.endswith("int64") else "string"
    async with write_cluster(tmp_path, key_serde=key_serde, value_serde="json") as cluster:
        writer = cluster.writer()
        epoch = await writer.epoch()
        refused = await writer.put(epoch, 0, f"{epoch}.task.0", chunk_of({0: {key: value}}))
        assert what in refused.problem(400, "MALFORMED_REQUEST")["detail"]
        assert cluster.staged() == set()


@pytest.mark.parametrize(
    ("method", "path", "status", "code", "word"),
    [
        ("POST", "/changelog/stores/birds/writers/job", 404, "STORE_NOT_FOUND", "words"),
        ("PUT", "/changelog/stores/birds/writers/job/1/batches/0/chunks/1.a.0", 404, None, "words"),
        ("POST", "/changelog/stores/birds/writers/job/1/batches/0/commit", 404, None, "words"),
        ("POST", "/changelog/stores/birds/writers/job/1/batches/0/abort", 404, None, "words"),
        ("POST", "/changelog/stores/birds/writers/job/1/renew", 404, None, "words"),
        ("POST", "/changelog/stores/words/writers/-job", 400, None, "name"),
        ("POST", "/changelog/stores/words/writers/a%2Fb", 400, None, "name"),
        ("POST", f"/changelog/stores/words/writers/{'w' * 201}", 400, None, "name"),
        ("POST", "/changelog/stores/words/writers/job?force=1", 400, "UNKNOWN_PARAMETER", "force"),
        ("POST", "/changelog/stores/words/writers/job/x/renew", 400, None, "epoch"),
        ("POST", "/changelog/stores/words/writers/job/1/renew?a=1", 400, "UNKNOWN_PARAMETER", "a"),
        ("POST", "/changelog/stores/words/writers/job/1/batches/-1/commit", 400, None, "batch"),
        ("POST", "/changelog/stores/words/writers/job/1/batches/%D9%A3/commit", 400, None, "batch"),
        ("POST", f"/changelog/stores/words/writers/job/{'9' * 19}/renew", 400, None, "epoch"),
        ("GET", "/changelog/stores/words/writers/job", 405, "METHOD_NOT_ALLOWED", "POST"),
        ("GET", "/control/replicas?weight=1", 400, "UNKNOWN_PARAMETER", "wait"),
        ("POST", "/transactions/prepare?x=1", 400, "UNKNOWN_PARAMETER", "x"),
        ("POST", "/transactions/undo", 404, "PATH_NOT_FOUND", "paths"),
    ],
)
async def test_a_wrong_path_is_refused(
    cluster: WriteCluster, method: str, path: str, status: int, code: str | None, word: str
) -> None:
    default = "MALFORMED_REQUEST" if status == 400 else "STORE_NOT_FOUND"
    for held in cluster.pods.values():  # The coordinator, and a pod that would pass it on.
        body = json.dumps({"queryId": "q", "runId": "r", "openId": "o"}).encode()
        answer = await held.internal.send(method, path, body, {})
        assert word in answer.problem(status, code or default)["detail"]


@pytest.mark.parametrize(
    ("chunk", "parameters", "status", "code"),
    [
        ("task.0", "generation=1", 400, "MALFORMED_REQUEST"),
        ("{epoch}.task", "generation=1", 400, "MALFORMED_REQUEST"),
        ("{epoch}.ta%2Fsk.0", "generation=1", 400, "MALFORMED_REQUEST"),
        ("{epoch}.task.0", "", 400, "MALFORMED_REQUEST"),
        ("{epoch}.task.0", "generation=one", 400, "MALFORMED_REQUEST"),
        ("{epoch}.task.0", "generation=1&generation=2", 400, "MALFORMED_REQUEST"),
        ("{epoch}.task.0", "generation=1&batch=2", 400, "UNKNOWN_PARAMETER"),
        ("7.task.0", "generation=1", 409, "STALE_WRITER"),
    ],
)
async def test_a_wrong_chunk_id_or_parameter_is_refused(
    cluster: WriteCluster, chunk: str, parameters: str, status: int, code: str
) -> None:
    writer = cluster.writer()
    epoch = await writer.epoch()
    named = chunk.format(epoch=epoch)
    (await writer.put(epoch, 0, named, GOOD, parameters=parameters)).problem(status, code)
    assert cluster.staged() == set()


def commit_body(**changes: Any) -> dict[str, Any]:
    return {"generation": 1, "chunks": {}, "position": {}, "fingerprint": "f", **changes}


ONE = ["1.a.0", 1, "aa"]


@pytest.mark.parametrize(
    ("what", "body", "code", "word"),
    [
        ("commit", b"", "MALFORMED_REQUEST", "CommitRequest"),
        ("commit", b"{", "MALFORMED_REQUEST", "CommitRequest"),
        ("commit", b"\xff", "MALFORMED_REQUEST", "CommitRequest"),
        ("commit", b"[" * 100_000, "MALFORMED_REQUEST", "CommitRequest"),
        ("commit", {}, "MALFORMED_REQUEST", "generation"),
        ("commit", commit_body(extra=1), "MALFORMED_REQUEST", "extra"),
        ("commit", commit_body(generation="1"), "MALFORMED_REQUEST", "generation"),
        ("commit", commit_body(fingerprint=""), "MALFORMED_REQUEST", "fingerprint"),
        ("commit", commit_body(fingerprint="f" * 201), "MALFORMED_REQUEST", "fingerprint"),
        ("commit", commit_body(chunks={"4": []}), "MALFORMED_REQUEST", "0..3"),
        ("commit", commit_body(chunks={"-1": []}), "MALFORMED_REQUEST", "0..3"),
        ("commit", commit_body(chunks={"00": []}), "MALFORMED_REQUEST", "0..3"),
        ("commit", commit_body(chunks={"0": [["a"]]}), "MALFORMED_REQUEST", "length"),
        ("commit", commit_body(chunks={"0": [ONE, ONE]}), "MALFORMED_REQUEST", "twice"),
        ("commit", commit_body(position={"a": {"x": 1}}), "MALFORMED_REQUEST", "partition"),
        ("commit", commit_body(position={"a": {"0": 2**63}}), "MALFORMED_REQUEST", "offset"),
        ("commit", commit_body(position={"@batch.job": {"1": 9}}), "MALFORMED_REQUEST", "own"),
        ("open", b"{", "MALFORMED_REQUEST", "OpenWriterRequest"),
        ("open", {"queryId": "q", "runId": "r"}, "MALFORMED_REQUEST", "openId"),
        ("open", {"queryId": "", "runId": "r", "openId": "o"}, "MALFORMED_REQUEST", "queryId"),
        ("open", {"queryId": "q" * 201, "runId": "r", "openId": "o"}, "MALFORMED_REQUEST", "200"),
        ("abort", b"null", "MALFORMED_REQUEST", "AbortRequest"),
        ("abort", {}, "MALFORMED_REQUEST", "generation"),
    ],
)
async def test_a_wrong_message_is_refused(
    cluster: WriteCluster, what: str, body: Any, code: str, word: str
) -> None:
    for ordinal in cluster.pods:
        writer = cluster.writer(ordinal)
        epoch = await writer.epoch()
        path = writer.path if what == "open" else f"{writer.path}/{epoch}/batches/0/{what}"
        path = writer.named(path)
        answer = await writer.api.post(path, body)
        assert word in answer.problem(400, code)["detail"]
    assert (await writer.commit(epoch, 0, {})).json()["sequence"] == 1, (
        "no wrong message was decided"
    )


async def test_a_refused_slice_leaves_the_slices_of_other_partitions_staged(
    cluster: WriteCluster,
) -> None:
    # Pod 0 also has a standby of partition 3.
    moved = [*cluster.configurations[:3], configuration(3, 1, standbys=[0], epoch=2)]
    await cluster.assign(moved)
    await cluster.until_led()
    writer = cluster.writer(0)
    epoch = await writer.epoch()
    everywhere = dict.fromkeys((0, 1, 2, 3, 9), ROWS)
    answer = await writer.put(epoch, 0, f"{epoch}.task.0", chunk_of(everywhere))
    results = answer.json()["partitions"]
    failures = {p: one["failure"] and one["failure"]["code"] for p, one in results.items()}
    assert failures == {
        "0": None,
        "1": "NOT_PRESENT",
        "2": None,
        "3": "NOT_ACTIVE",
        "9": "DOES_NOT_EXIST",
    }
    assert results["1"]["failure"]["details"]["active"] == "words-1"
    assert {partition for partition, _ in cluster.staged()} == {0, 2}


@pytest.mark.parametrize("number", ["x", "-1", "1.0", "\N{ARABIC-INDIC DIGIT ONE}", "4"])
async def test_a_prepare_of_an_unknown_partition_is_refused_for_that_partition(
    cluster: WriteCluster, number: str
) -> None:
    body = {
        "storeId": cluster.definition.store_id,
        "epochs": {"0": 1, number: 1},
        "writer": "job",
        "generation": 1,
        "batch": 0,
        "writerEpoch": 1,
        "chunks": {},
    }
    answer = await cluster.pods[0].internal.post("/transactions/prepare", body)
    partitions = answer.json()["partitions"]
    assert partitions["0"] is None
    assert partitions[number]["code"] == "DOES_NOT_EXIST"


async def test_a_position_has_at_most_1024_components(cluster: WriteCluster) -> None:
    writer = cluster.writer()
    epoch = await writer.epoch()
    # The number of the batch is a component, too.
    most = {"topic": {str(partition): 1 for partition in range(COMPONENTS_MAX - 1)}}
    for batch in range(2):
        (await writer.commit(epoch, batch, {}, position=most)).json()
    one_more = {"topic": {**most["topic"], "5000": 1}}
    refused = await writer.commit(epoch, 2, {}, position=one_more)
    assert "components" in refused.problem(413, "LIMIT_EXCEEDED")["detail"]
    assert (await writer.commit(epoch, 2, {}, position=most)).json()["sequence"] == 3


async def test_a_body_that_is_too_large_is_refused(tmp_path: Path) -> None:
    settings = Settings(chunk_bytes_max=1000, message_bytes_max=1000)
    async with write_cluster(tmp_path, settings=settings) as cluster:
        writer = cluster.writer()
        epoch = await writer.epoch()
        refused = await writer.put(epoch, 0, f"{epoch}.task.0", bytes(1001))
        assert "1000 bytes" in refused.problem(413, "LIMIT_EXCEEDED")["detail"]
        for ordinal in cluster.pods:  # Also on the pod that would pass the request on.
            writer = cluster.writer(ordinal)
            large = await writer.commit(epoch, 0, {}, position={"t" * 1000: {}})
            large.problem(413, "LIMIT_EXCEEDED")


async def test_a_commit_has_no_more_bytes_than_its_partitions_need(tmp_path: Path) -> None:
    async with write_cluster(tmp_path, pods=1) as cluster:
        writer = cluster.writer()
        epoch = await writer.epoch()
        partitions = cluster.pods[0].pod.registry.placed().definition.partitions
        name = "t" * (commit_bytes_max(partitions) + 1)
        refused = await writer.commit(epoch, 0, {}, position={name: {}})
        told = refused.problem(413, "LIMIT_EXCEEDED")["detail"]
        assert f"chunks for each of {partitions} partitions" in told
        chunk = ["c" * 36, 1, "c" * 8]
        rows = {str(number): [chunk] * 4000 for number in range(partitions)}
        assert len(json.dumps(rows)) < commit_bytes_max(partitions) - 1024 * 1024


async def test_a_body_that_comes_too_slowly_is_refused_and_frees_its_memory(
    tmp_path: Path,
) -> None:
    settings = Settings(body_deadline_s=0.2)
    async with write_cluster(tmp_path, pods=1, settings=settings) as cluster:
        path = "/changelog/stores/words/writers/job/1/batches/0/chunks/1.a.0?generation=1"
        path += "&storeId=store-1"
        reader, writer = await asyncio.open_connection("127.0.0.1", cluster.ports[0])
        writer.write(f"PUT {path} HTTP/1.1\r\nHost: pod\r\nContent-Length: 999\r\n\r\n".encode())

        def rendered() -> bytes:
            return cluster.pods[0].pod.metrics.render(lambda: None)

        await wait_until_async(lambda: b"qss_uncommitted_bytes 999.0" in rendered())
        answer = await asyncio.wait_for(reader.read(), 5)
        writer.close()
        assert answer.startswith(b"HTTP/1.1 408 ")
        assert b"REQUEST_TIMEOUT" in answer
        assert b"qss_uncommitted_bytes 0.0" in rendered()


async def test_a_writer_that_was_never_opened_is_unknown(cluster: WriteCluster) -> None:
    for ordinal in cluster.pods:
        writer = cluster.writer(ordinal)
        (await writer.renew(1)).problem(404, "UNKNOWN_WRITER")
        (await writer.abort(1, 0)).problem(404, "UNKNOWN_WRITER")
        (await writer.commit(1, 0, {})).problem(404, "UNKNOWN_WRITER")


async def test_a_chunk_id_stands_for_one_content(cluster: WriteCluster) -> None:
    writer = cluster.writer()
    epoch = await writer.epoch()
    chunk = f"{epoch}.task.0"
    staged = await writer.stage(epoch, 0, chunk, {0: ROWS})
    await writer.stage(epoch, 0, chunk, {0: ROWS, 2: ROWS})  # A repeat with one new slice.
    other = await writer.put(epoch, 0, chunk, chunk_of({0: {b"k": b"other"}}))
    assert other.json()["partitions"]["0"]["failure"]["code"] == "CHUNK_MISMATCH"
    wrong = [reference_of(chunk, 0, {b"k": b"other"})]
    (await writer.commit(epoch, 0, {0: wrong})).problem(409, "CHUNK_MISSING")
    (await writer.commit(epoch, 0, staged)).json()
    assert cluster.rows(0) == ROWS
    assert cluster.rows(2) == {}
    assert cluster.staged() == set()
