"""Scans as Arrow streams have the rows and marks of the NDJSON answer."""

import asyncio
import base64
import json
from collections.abc import Awaitable, Callable
from itertools import chain
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from qss_client import AsyncStore, Store
from qss_client.reads.calls import failed_keys
from qss_client.reads.requests import PAGE_ROWS, TABLE_ROWS
from qss_client.reads.tables import joined, read_stream
from qss_core.errors import StoreError
from qss_core.model import StoreType
from qss_core.serdes.registry import serde_of
from qss_testing.clients.http import Api
from qss_testing.pods.stores import Cluster, Put

StartCluster = Callable[..., Awaitable[Cluster]]
MakeApi = Callable[..., Api]

ARROW = {"Accept": "application/vnd.apache.arrow.stream"}
NDJSON = {"Accept": "application/x-ndjson"}
HOUR = 3_600_000
UUID = "6f8f2b0e-52f6-4c6f-8d5e-0b1c2d3e4f50"

LISTS = {
    "list<string>": serde_of("list<string>").encode(["x", ""]),
    "list<json>": serde_of("list<json>").encode([{"a": [1.5]}, 3, "x"]),
}


def rows_of(body: bytes) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = read_stream(body)["table"].to_pylist()
    return found


@pytest.mark.parametrize(
    ("serde", "stored", "kind", "value"),
    [
        ("string", b"x", pa.string(), "x"),
        ("json", b'{"a": [1.0]}', pa.string(), '{"a": [1.0]}'),
        ("bytes", b"\x00\xff", pa.binary(), b"\x00\xff"),
        ("int16", b"\x00\x07", pa.int16(), 7),
        ("int64", b"\xff" * 8, pa.int64(), -1),
        ("float64", b"\x7f\xf0" + bytes(6), pa.float64(), float("inf")),
        ("boolean", b"\x01", pa.bool_(), True),
        ("uuid", UUID.encode(), pa.string(), UUID),
        ("list<string>", LISTS["list<string>"], pa.list_(pa.string()), ["x", ""]),
        ("list<json>", LISTS["list<json>"], pa.list_(pa.string()), ['{"a":[1.5]}', "3", '"x"']),
    ],
)
async def test_values_have_the_types_of_their_serde(
    start_cluster: StartCluster,
    api: MakeApi,
    serde: str,
    stored: bytes,
    kind: pa.DataType,
    value: Any,
) -> None:
    cluster = await start_cluster(value_serde=serde)
    await cluster.put([Put(b"a", stored, 5)])
    answer = await api(cluster).get("/state/stores/words", **ARROW)
    assert answer.headers["Content-Type"] == ARROW["Accept"]
    table = read_stream(answer.body)["table"]
    assert table.schema.field("value").type == kind
    assert table.to_pylist() == [{"key": "a", "value": value, "timestamp": 5}]


@pytest.mark.parametrize("pods", [1, 3])
async def test_the_stream_has_the_rows_and_the_marks_of_ndjson(
    start_cluster: StartCluster, api: MakeApi, pods: int
) -> None:
    cluster = await start_cluster(pods, format="TimestampedWithHeaders", value_serde="string")
    rows = [Put(b"k%03d" % n, b"v%d" % n, n, (("h", b"x"), ("h", None))) for n in range(700)]
    await cluster.put(rows, {"in": {"0": 7}})
    path = "/state/stores/words?from=k100&order=DESCENDING"
    lines = (await api(cluster).get(path, **NDJSON)).body.splitlines()
    plain = [json.loads(line) for line in lines]
    expected = [row for row in plain if "key" in row]
    for row in expected:
        row["headers"] = [
            {"key": one["key"], "value": one["value"] and base64.b64decode(one["value"])}
            for one in row["headers"]
        ]
    found = read_stream((await api(cluster).get(path, **ARROW)).body)
    assert found["table"].to_pylist() == expected
    assert len(expected) == 600
    marks = {str(one.pop("partition")): one for one in plain if "partition" in one and one}
    for mark in marks.values():
        mark.pop("cursor")
    assert found["partitions"] == marks
    assert found["cursor"] is None


@pytest.mark.parametrize(
    ("members", "path", "expected"),
    [
        (
            {"type": StoreType.WINDOW, "retain_duplicates": True, "format": "PlainWithHeaders"},
            "/state/windows/words",
            {"window_start": HOUR, "window_end": 2 * HOUR, "sequence": 1, "headers": []},
        ),
        (
            {"type": StoreType.SESSION},
            "/state/sessions/words/a",
            {"session_start": HOUR, "session_end": HOUR + 5},
        ),
        (
            {"type": StoreType.VERSIONED, "format": "Plain"},
            "/state/versions/words/a?from=0",
            {"valid_from": 9, "valid_to": None},
        ),
    ],
    ids=["windows", "sessions", "versions"],
)
async def test_rows_with_times_have_columns_of_them(
    start_cluster: StartCluster,
    api: MakeApi,
    members: dict[str, Any],
    path: str,
    expected: dict[str, Any],
) -> None:
    cluster = await start_cluster(**members)
    await cluster.put([Put(b"a", b"1", 9, start=HOUR, end=HOUR + 5)])
    answer = await api(cluster).get(path, **ARROW)
    assert rows_of(answer.body) == [{"key": "a", "value": "1", **expected}]


async def test_a_query_of_iqv2_streams_arrow_too(start_cluster: StartCluster, api: MakeApi) -> None:
    cluster = await start_cluster()
    await cluster.put_values({"a": 1, "b": 2})
    query = {"query": {"type": "RangeQuery", "lower": "b"}}
    answer = await api(cluster).post("/state/query/words", query, **ARROW)
    assert rows_of(answer.body) == [{"key": "b", "value": "2"}]


async def test_texts_of_times_are_refused(start_cluster: StartCluster, api: MakeApi) -> None:
    cluster = await start_cluster(type=StoreType.WINDOW)
    answer = await api(cluster).get("/state/windows/words?times=rfc3339", **ARROW)
    answer.problem(400, "MALFORMED_REQUEST")


async def test_a_client_has_tables_of_whole_scans(start_cluster: StartCluster) -> None:
    cluster = await start_cluster(3, value_serde="int64")
    await cluster.put([Put(b"k%03d" % n, n.to_bytes(8, "big"), n) for n in range(300)])

    def ask() -> tuple[Any, ...]:
        with Store(cluster.url(), "words") as store:
            table = store.range("k100").to_arrow()
            scan = duckdb.from_arrow(table)
            [total] = scan.filter("key < 'k200'").aggregate("sum(value)").fetchall()
            assert store.position.component_count > 0
            return (
                table.num_rows,
                total,
                store.prefix("k00").to_pandas()["value"].tolist(),
                store.range(limit=7).to_polars()["timestamp"].sum(),
                store.range("x").to_arrow().num_rows,
            )

    rows, total, few, stamps, none = await asyncio.to_thread(ask)
    assert stamps > 0
    assert (rows, total, none) == (200, (sum(range(100, 200)),), 0)
    assert sorted(few) == list(range(10))


async def test_duckdb_reads_a_scan_as_the_docs_do(start_cluster: StartCluster) -> None:
    cluster = await start_cluster(3, value_serde="json")
    await cluster.put_values({f"k{number}": {"flights": number} for number in range(10)})
    page = (Path(__file__).parents[3] / "store-pod/docs/python-client.md").read_text()
    (line,) = (line for line in page.splitlines() if line.startswith("duckdb.from_arrow"))

    def ask() -> Any:
        with Store(cluster.url(), "words") as store:
            return eval(line, {"duckdb": duckdb, "flights": store.range().to_arrow()}).fetchall()

    assert await asyncio.to_thread(ask) == [(10, 45)]


async def test_a_client_takes_tables_page_by_page(start_cluster: StartCluster) -> None:
    cluster = await start_cluster(3, engine="memory", value_serde="int64")
    count = TABLE_ROWS + 60
    await cluster.put([Put(b"k%06d" % n, n.to_bytes(8, "big"), n) for n in range(count)])

    def ask(limit: int | None) -> list[list[int]]:
        with Store(cluster.url(), "words") as store:
            tables = store.range(limit=limit).arrow_tables()
            return [table.column("value").to_pylist() for table in tables]

    pages = await asyncio.to_thread(ask, None)
    assert [len(page) for page in pages] == [TABLE_ROWS, 60]
    assert sorted([*chain.from_iterable(pages)]) == list(range(count))
    assert await asyncio.to_thread(ask, TABLE_ROWS) == pages[:1]
    assert await asyncio.to_thread(ask, TABLE_ROWS + 30) == [pages[0], pages[1][:30]]
    async with AsyncStore(cluster.url(), "words") as store:
        tables = [table async for table in store.range().arrow_tables()]
        whole = await store.range().to_arrow()
        assert [table.column("value").to_pylist() for table in tables] == pages
        assert whole.column("value").to_pylist() == [*chain.from_iterable(pages)]
        (nothing,) = [table async for table in store.range("x").arrow_tables()]
        assert nothing.num_rows == 0


async def test_windows_by_time_are_tables_too(start_cluster: StartCluster) -> None:
    cluster = await start_cluster(2, engine="memory", type=StoreType.WINDOW)
    count = PAGE_ROWS + 50
    await cluster.put([Put(b"k%05d" % n, b"1", 0, start=n) for n in range(count)])

    def ask() -> list[int]:
        with Store(cluster.url(), "words") as store:
            pages = list(store.windows(order_by="time").arrow_tables())
            assert [page.num_rows for page in pages] == [PAGE_ROWS, 50]
            table = store.windows(order_by="time", limit=PAGE_ROWS + 1).to_arrow()
            starts: list[int] = table.column("window_start").to_pylist()
            return starts

    assert await asyncio.to_thread(ask) == list(range(PAGE_ROWS + 1))


async def test_pages_of_two_formats_are_one_table(start_cluster: StartCluster) -> None:
    older = await start_cluster(format="Plain", value_serde="int64")
    newer = await start_cluster(format="TimestampedWithHeaders", value_serde="int64")
    await older.put([Put(b"a", (1).to_bytes(8, "big"), 5)])
    await newer.put([Put(b"b", (2).to_bytes(8, "big"), 6, (("h", b"x"),))])

    def ask(cluster: Cluster) -> pa.Table:
        with Store(cluster.url(), "words") as store:
            return store.range().to_arrow()

    tables = [await asyncio.to_thread(ask, cluster) for cluster in (older, newer)]
    table = joined(tables)
    assert table.column("value").to_pylist() == [1, 2]
    assert table.column("timestamp").to_pylist() == [None, 6]
    with pytest.raises(StoreError, match="was made again while it was read"):
        joined([table, pa.table({"value": ["text"]})])


async def test_a_stream_that_was_cut_off_is_no_answer(
    start_cluster: StartCluster, api: MakeApi
) -> None:
    cluster = await start_cluster()
    await cluster.put_values({"a": 1})
    body = (await api(cluster).get("/state/stores/words", **ARROW)).body
    assert len(rows_of(body)) == 1
    for cut in (0, 10, len(body) // 2, len(body) - 8, len(body) - 1):
        with pytest.raises(StoreError, match="Arrow stream"):
            read_stream(body[:cut])


# --- Batch gets


@pytest.mark.parametrize("pods", [1, 3])
async def test_a_batch_get_has_a_row_for_each_key(
    start_cluster: StartCluster, api: MakeApi, pods: int
) -> None:
    cluster = await start_cluster(pods, format="TimestampedWithHeaders")
    headers = (("h", b"\xff"), ("h", None))
    await cluster.put([Put(b"a", b'{"n": 1.0}', 5, headers), Put(b"b", b"null", 6, ())])
    keys = ["b", "nope", "a", "b"]
    answer = await api(cluster).post("/state/get/words", {"keys": keys}, **ARROW)
    assert answer.headers["Content-Type"] == ARROW["Accept"]
    found = read_stream(answer.body)
    rows = found["table"].to_pylist()
    assert [row["key"] for row in rows] == keys
    assert [row["status"] for row in rows] == ["FOUND", "ABSENT", "FOUND", "FOUND"]
    assert [row["value"] for row in rows] == ["null", None, '{"n": 1.0}', "null"]
    assert [row["timestamp"] for row in rows] == [6, None, 5, 6]
    assert rows[2]["headers"] == [{"key": "h", "value": b"\xff"}, {"key": "h", "value": None}]
    assert [row["partition"] for row in rows] == [cluster.partition_of(k.encode()) for k in keys]
    assert {row["failure"] for row in rows} == {None}
    assert set(found["partitions"]) == {str(row["partition"]) for row in rows}


async def test_a_key_of_a_batch_get_that_failed_says_why(
    start_cluster: StartCluster, api: MakeApi
) -> None:
    cluster = await start_cluster(2)
    await cluster.put_values({"a": 1})
    pod = api(cluster, 1 - cluster.partition_of(b"a") % 2)
    keys = {"keys": ["a", "b"]}
    answer = await pod.post("/state/get/words?scope=local", keys, **ARROW)
    found = read_stream(answer.body)
    first = found["table"].to_pylist()[0]
    assert (first["status"], first["value"]) == ("FAILED", None)
    assert json.loads(first["failure"])["reason"] == "NOT_PRESENT"
    assert {one["failure"]["reason"] for one in failed_keys(found)} == {"NOT_PRESENT"}


async def test_clients_make_tables_of_many_keys(start_cluster: StartCluster) -> None:
    cluster = await start_cluster(3)
    await cluster.put_values({f"k{number}": number for number in range(1500)})
    keys = [f"k{number}" for number in range(2500)]

    def ask() -> None:
        with Store(cluster.url(0), "words") as store:
            found = store.get_many(keys)
            assert len(found) == 2500
            assert found[7] is not None
            assert found[7].value == 7
            table = found.to_arrow()
            assert table.column("key").to_pylist() == keys
            assert table.column_names == ["key", "value", "timestamp", "partition", "status"]
            assert table.column("value").null_count == 1000
            assert list(found.to_pandas()["status"][:1501]) == ["FOUND"] * 1500 + ["ABSENT"]
            assert found.to_polars().filter(status="FOUND").height == 1500
            assert store.get_many([]).to_arrow().num_rows == 0

    await asyncio.to_thread(ask)
    async with AsyncStore(cluster.url(0), "words") as store:
        table = await (await store.get_many(["k1", "x"])).to_arrow()
        assert table.column("value").to_pylist() == ["1", None]
