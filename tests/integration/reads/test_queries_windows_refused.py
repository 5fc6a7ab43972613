"""Requests that a store of windows refuses, and its messages."""

from collections.abc import Callable

import pytest

from qss_testing.clients.http import Api
from qss_testing.pods.timed_stores import WINDOW, StartCluster, window_puts

MakeApi = Callable[..., Api]
WINDOWS = "/state/windows/words"


@pytest.mark.parametrize(
    ("query", "status", "code", "word"),
    [
        ("?from=soon", 400, "MALFORMED_REQUEST", "from"),
        ("?to=2013-01-32", 400, "MALFORMED_REQUEST", "to is a time"),
        ("?from=2013-01-01T00:00:00+01:00", 400, "MALFORMED_REQUEST", "%2B"),
        ("?from=2&to=1", 400, "RANGE_REVERSED", "DESCENDING"),
        ("?keyFrom=b&keyTo=a", 400, "RANGE_REVERSED", "bytes"),
        ("?order=UP", 400, "MALFORMED_REQUEST", "order"),
        ("?orderBy=size", 400, "MALFORMED_REQUEST", "orderBy"),
        ("?times=julian", 400, "MALFORMED_REQUEST", "times"),
        ("?limit=0", 400, "MALFORMED_REQUEST", "limit"),
        ("?limit=100001", 413, "LIMIT_EXCEEDED", "limit"),
        ("?orderBy=time&limit=10001", 413, "LIMIT_EXCEEDED", "cursor"),
        ("?cursor=xyz", 400, "MALFORMED_CURSOR", "cursor"),
        ("?start=1", 400, "UNKNOWN_PARAMETER", "start"),
        ("?prefix=a", 400, "UNKNOWN_PARAMETER", "prefix"),
        ("?partition=1", 400, "UNKNOWN_PARAMETER", "partition"),
        ("/a?keyFrom=a", 400, "UNKNOWN_PARAMETER", "keyFrom"),
        ("/a?orderBy=time", 400, "UNKNOWN_PARAMETER", "orderBy"),
        ("/a?partitions=1", 400, "UNKNOWN_PARAMETER", "partitions"),
        ("/a?start=1&from=1", 400, "MALFORMED_REQUEST", "from"),
        ("/a?start=1&cursor=x", 400, "MALFORMED_REQUEST", "cursor"),
        ("/a?start=-1", 400, "MALFORMED_REQUEST", "1970"),
        ("/a?start=x", 400, "MALFORMED_REQUEST", "start"),
        ("/a?endFrom=1", 400, "UNKNOWN_PARAMETER", "endFrom"),
        ("/?from=1", 400, "MALFORMED_REQUEST", "POST /state/query"),
    ],
)
async def test_what_cannot_be_asked_is_refused(
    start_cluster: StartCluster, api: MakeApi, query: str, status: int, code: str, word: str
) -> None:
    cluster = await start_cluster(engine="memory", **WINDOW)
    problem = (await api(cluster).get(WINDOWS + query)).problem(status, code)
    assert word in str(problem)


@pytest.mark.parametrize(
    ("method", "path", "word"),
    [
        ("get", "/state/stores/words", "/state/windows"),
        ("get", "/state/stores/words/a", "/state/windows"),
        ("get", "/state/sessions/words", "Session stores"),
        ("get", "/state/sessions/words/a", "Session stores"),
        ("post", "/state/get/words", "/state/windows"),
    ],
)
async def test_what_is_for_other_stores_says_what_to_ask(
    start_cluster: StartCluster, api: MakeApi, method: str, path: str, word: str
) -> None:
    cluster = await start_cluster(engine="memory", **WINDOW)
    pod = api(cluster)
    answer = await (pod.get(path) if method == "get" else pod.post(path, {"keys": ["a"]}))
    assert word in answer.problem(400, "UNKNOWN_QUERY_TYPE")["detail"]


async def test_a_cursor_is_for_its_own_query(start_cluster: StartCluster, api: MakeApi) -> None:
    cluster = await start_cluster(engine="memory", **WINDOW)
    await cluster.put(window_puts())
    cursor = (await api(cluster).get(f"{WINDOWS}?limit=5")).json()["cursor"]
    for change in ("from=1", "keyFrom=a", "order=DESCENDING", "orderBy=time", "to=1"):
        answer = await api(cluster).get(f"{WINDOWS}?cursor={cursor}&{change}")
        answer.problem(400, "MALFORMED_CURSOR")
    shown = await api(cluster).get(f"{WINDOWS}?cursor={cursor}&times=rfc3339&limit=3")
    assert shown.status == 200
