"""A forged cursor gives no rows outside of the query's bounds."""

import struct
import zlib
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from qss_core.model import PartitionId
from qss_core.text import decode_base64url, encode_base64url
from qss_testing.clients.http import Api
from qss_testing.pods.stores import Cluster, Put, commit_rows, open_memory
from qss_testing.pods.timed_stores import WINDOW, window_puts
from qss_testing.reference.own_stores import BY_VALUE, by_value

StartCluster = Callable[..., Awaitable[Cluster]]
MakeApi = Callable[..., Api]
VALUES = {f"{user}/{number:02}": number for user in ("a", "b", "c") for number in range(20)}
FORGED = [b"", b"\x00", b"a/", b"a/05", b"b/", b"b/05", b"b0", b"c/05", b"\xff" * 4]
SCAN = "/state/stores/words"


def forged(cursor: str, last_key: bytes) -> str:
    """The cursor with another place in all its partitions."""
    content = decode_base64url(cursor)[5:]
    head_end = 9 + content[8]
    head, pieces = content[:head_end], content[head_end:]
    count, at, partitions = struct.unpack_from(">H", pieces)[0], 2, []
    for _ in range(count):
        partition, _, length = struct.unpack_from(">HQI", pieces, at)
        partitions.append(partition)
        at += 14 + max(0, length - 1)
    made = head + struct.pack(">H", count)
    for partition in partitions:
        made += struct.pack(">HQI", partition, 0, len(last_key) + 1) + last_key
    return encode_base64url(b"\x01" + struct.pack(">I", zlib.crc32(made)) + made)


@pytest.mark.parametrize("order", ["ASCENDING", "DESCENDING"])
@pytest.mark.parametrize("bounds", ["prefix=b/", "from=b/&to=b/99", "from=b/05&to=b/06"])
async def test_rows_outside_of_the_bounds_are_never_given(
    start_cluster: StartCluster, api: MakeApi, bounds: str, order: str
) -> None:
    cluster = await start_cluster(1, partitions=2, engine="memory")
    await cluster.put_values(VALUES, {})
    path = f"{SCAN}?{bounds}&order={order}"
    whole = {row["key"] for row in await api(cluster).rows(path)}
    cursor = (await api(cluster).get(f"{path}&limit=1")).json()["cursor"]
    for last_key in FORGED:
        answer = (await api(cluster).get(f"{path}&cursor={forged(cursor, last_key)}")).json()
        assert {row["key"] for row in answer["rows"]} <= whole, last_key


@pytest.mark.parametrize("order", ["ASCENDING", "DESCENDING"])
@pytest.mark.parametrize("by", ["key", "time"])
async def test_windows_outside_of_the_bounds_are_never_given(
    start_cluster: StartCluster, api: MakeApi, by: str, order: str
) -> None:
    cluster = await start_cluster(1, **{"engine": "memory", **WINDOW})
    await cluster.put(window_puts(), {})
    some = "" if by == "key" else "&orderBy=time"
    path = f"/state/windows/words?keyFrom=b&keyTo=ca{some}&order={order}"
    whole = [row["key"] for row in await api(cluster).rows(f"{path}&limit=1000")]
    cursor = (await api(cluster).get(f"{path}&limit=1")).json()["cursor"]
    for last_key in (b"", b"a" + bytes(12), b"d" + bytes(12), b"\xff" * 20):
        answer = (
            await api(cluster).get(f"{path}&limit=1000&cursor={forged(cursor, last_key)}")
        ).json()
        assert {row["key"] for row in answer["rows"]} <= set(whole), last_key


@pytest.mark.parametrize("order", ["ASCENDING", "DESCENDING"])
async def test_index_rows_outside_of_the_bounds_are_never_given(
    tmp_path: Path, api: MakeApi, order: str
) -> None:
    cluster = Cluster(by_value(), tmp_path, open_memory(), extensions=BY_VALUE)
    try:
        await cluster.start(1)
        replica = cluster.nodes[0].pod.registry.replicas[PartitionId(0)]
        rows = [Put(b"k%d" % number, b"%d" % number, 1) for number in range(10)]
        await commit_rows(replica, rows, batch=0, position={})
        query = {"type": "IndexQuery", "index": "by-value", "lower": "3", "upper": "5"}
        body = {"query": {**query, "order": order}, "limit": 1}
        pod = api(cluster)
        cursor = (await pod.post("/state/query/words", body)).json()["cursor"]
        for last_key in (b"", b"1", b"9", b"\xff" * 4):
            again = {**body, "limit": 100, "cursor": forged(cursor, last_key)}
            answer = (await pod.post("/state/query/words", again)).json()
            found = answer["partitionResults"]["0"]["result"]
            assert {row["value"] for row in found} <= {"3", "4", "5"}, last_key
    finally:
        await cluster.close()
