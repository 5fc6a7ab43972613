"""Scans as CSV: the rows that `qss ... -o csv` prints, whole or broken off, or a page."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp
import pytest

from qss_core.model import StoreType
from qss_store.runtime.settings import Settings
from qss_testing.clients.http import Answer, Api
from qss_testing.clients.terminal import Terminal
from qss_testing.fakes.strange_pods import move_address
from qss_testing.pods.stores import Cluster, Put

StartCluster = Callable[..., Awaitable[Cluster]]
MakeApi = Callable[..., Api]

CSV = {"Accept": "text/csv"}
CURSOR = "Queryable-State-Cursor"
SCAN = "/state/stores/words"
HOUR = 3_600_000


def text_of(answer: Answer) -> str:
    """The body of a successful answer."""
    assert answer.status == 200, answer.body
    assert answer.media == "text/csv; charset=utf-8; header=present"
    return answer.body.decode()


async def test_a_stream_has_what_qss_prints(
    start_cluster: StartCluster, api: MakeApi, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = await start_cluster(3, partitions=3, format="TimestampedWithHeaders")
    odd = [b'"a,b"', b'"say \\"hi\\""', b'""', b"null", b"2.50", b'{"n": [1,"x\\n"]}', b'" led"']
    odd += [b'"\\u00e4"', b"true", b'"two\\r\\nlines"']
    puts = [Put(f"k{n:03},é".encode(), odd[n % len(odd)], n, (("h", b"x"),)) for n in range(900)]
    await cluster.put(puts)
    pod = api(cluster)
    found = text_of(await pod.get(SCAN, **CSV))
    done = await asyncio.to_thread(
        Terminal(cluster.url(), capsys).run, "scan", "words", "-o", "csv", "--limit", "1000"
    )
    assert found == done.out
    assert found.startswith("key,value,timestamp,headers\n")
    assert '"k000,é","a,b",0,"[{""key"":""h"",""value"":""eA==""}]"\n' in found
    asked = {"query": {"type": "RangeQuery", "lower": "k001"}, "partitions": [1]}
    lines = text_of(await pod.post("/state/query/words", asked, **CSV)).splitlines()
    assert lines[0] == "key,value"
    assert text_of(await pod.get(f"{SCAN}?prefix=none", **CSV)) == "key,value,timestamp,headers\n"


async def test_a_page_has_its_cursor_in_a_header(start_cluster: StartCluster, api: MakeApi) -> None:
    cluster = await start_cluster(2, partitions=3, value_serde="string")
    await cluster.put_values({f"k{n:02}": str(n) for n in range(25)})
    pod = api(cluster)
    whole = text_of(await pod.get(SCAN, **CSV)).splitlines()
    lines, path = whole[:1], f"{SCAN}?limit=10"
    for rows in (10, 10, 5):
        answer = await pod.get(path, **CSV)
        header, *page = text_of(answer).splitlines()
        assert (header, len(page)) == (whole[0], rows)
        lines += page
        path = f"{SCAN}?limit=10&cursor={answer.headers.get(CURSOR)}"
    assert lines == whole
    assert CURSOR not in answer.headers
    rest = await pod.get(f"{SCAN}?limit=20", **CSV)
    following = text_of(await pod.get(f"{SCAN}?cursor={rest.headers[CURSOR]}", **CSV))
    assert following.splitlines()[1:] == whole[21:], "a cursor without a limit: the whole rest"
    too_many = (await pod.get(f"{SCAN}?limit=1000000", **CSV)).problem(413, "LIMIT_EXCEEDED")
    assert "a page of CSV has up to" in too_many["detail"]
    head = await pod.send("HEAD", SCAN, None, CSV)
    assert text_of(head) == ""


@pytest.mark.parametrize(
    ("members", "path", "expected"),
    [
        (
            {"type": StoreType.WINDOW, "retain_duplicates": True, "format": "PlainWithHeaders"},
            "/state/windows/words",
            f"key,windowStart,windowEnd,sequence,value,headers\na,{HOUR},{2 * HOUR},1,1,[]\n",
        ),
        (
            {"type": StoreType.WINDOW, "format": "Plain"},
            "/state/windows/words?orderBy=time&limit=5&times=rfc3339",
            "key,windowStart,windowEnd,value\na,1970-01-01T01:00:00Z,1970-01-01T02:00:00Z,1\n",
        ),
        (
            {"type": StoreType.SESSION},
            "/state/sessions/words/a",
            f"key,sessionStart,sessionEnd,value\na,{HOUR},{HOUR + 5},1\n",
        ),
        (
            {"type": StoreType.VERSIONED, "format": "Plain"},
            "/state/versions/words/a?from=0",
            "key,validFrom,validTo,value\na,9,,1\n",
        ),
    ],
    ids=["windows", "by time", "sessions", "versions"],
)
async def test_rows_with_times_have_columns_of_them(
    start_cluster: StartCluster, api: MakeApi, members: dict[str, Any], path: str, expected: str
) -> None:
    cluster = await start_cluster(**members)
    await cluster.put([Put(b"a", b"1", 9, start=HOUR, end=HOUR + 5)])
    assert text_of(await api(cluster).get(path, **CSV)) == expected


async def test_a_failure_is_a_problem_or_ends_the_stream_before_its_end(
    start_cluster: StartCluster, api: MakeApi
) -> None:
    cluster = await start_cluster(2, partitions=2, engine="memory")
    await cluster.put_values({f"k{n:02}": n for n in range(20)})
    pod = api(cluster)
    await move_address(cluster, 1, 1)
    # Partition 1 is on pod 1, and comes after the rows of partition 0.
    for path in (f"{SCAN}?partitions=1", f"{SCAN}?limit=20", f"{SCAN}?partitions=1&limit=1"):
        detail = (await pod.get(path, **CSV)).problem(503, "UNREACHABLE")["detail"]
        assert "words-1" in detail
    (await pod.get(f"{SCAN}?partitions=0,9", **CSV)).problem(404, "DOES_NOT_EXIST")
    with pytest.raises(aiohttp.ClientPayloadError):
        await pod.get(SCAN, **CSV)
    assert text_of(await pod.get(f"{SCAN}?partitions=0", **CSV)).startswith("key,value,")


async def test_a_stream_beyond_its_limit_is_not_taken_for_whole(
    start_cluster: StartCluster, api: MakeApi
) -> None:
    cluster = await start_cluster(engine="memory", settings=Settings(stream_bytes_max=2000))
    await cluster.put_values({f"k{n:02}": "x" * 100 for n in range(60)})
    with pytest.raises(aiohttp.ClientPayloadError):
        await api(cluster).get(SCAN, **CSV)


async def test_a_cursor_that_is_too_long_for_a_header_is_refused(
    start_cluster: StartCluster, api: MakeApi
) -> None:
    cluster = await start_cluster(engine="memory", partitions=1)
    await cluster.put_values({"a" * 9000: 1, "b": 2})
    problem = (await api(cluster).get(f"{SCAN}?limit=1", **CSV)).problem(413, "LIMIT_EXCEEDED")
    assert "accept application/x-ndjson" in problem["detail"]
    assert len(text_of(await api(cluster).get(SCAN, **CSV)).splitlines()) == 3
