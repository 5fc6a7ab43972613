"""`Store`, `AsyncStore` and `qss versions`: one version of a key, or its history."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from qss_client import VersionRow
from qss_client.reads.requests import PAGE_ROWS
from qss_core.errors import RangeReversedError, UnknownQueryTypeError
from qss_testing.clients.clients import AnyClient
from qss_testing.clients.qss_command import Finished
from qss_testing.clients.terminal import Terminal
from qss_testing.pods.stores import Cluster, Put
from qss_testing.pods.timed_stores import StartCluster
from qss_testing.reference.versions import VERSIONED

Connect = Callable[[Cluster], Awaitable[AnyClient]]
Run = Callable[..., Awaitable[Finished]]
STRANGE = ["", ".", "..", "a/b", "%2F", "x" * 3000]
TIMES = [(1000, b"1"), (2000, b"2"), (3000, None), (4000, b"4")]
ROWS = [(1, 1000, 2000), (2, 2000, 3000), (4, 4000, None)]


@pytest.fixture(params=["sync", "async"])
async def connect(request: pytest.FixtureRequest) -> AsyncIterator[Connect]:
    """Makes clients, and closes them."""
    clients: list[AnyClient] = []

    async def make(cluster: Cluster) -> AnyClient:
        clients.append(AnyClient(request.param, cluster.url(), "words"))
        return clients[-1]

    yield make
    for client in clients:
        await client.close()


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs the command against a store of this process."""

    async def run(cluster: Cluster, *arguments: str) -> Finished:
        terminal = Terminal(cluster.url(), capsys)
        return await asyncio.to_thread(terminal.run, "versions", "words", *arguments)

    return run


async def filled(start_cluster: StartCluster) -> Cluster:
    cluster = await start_cluster(2, engine="memory", **VERSIONED)
    keys = ["k1", *STRANGE]
    await cluster.put([Put(key.encode(), value, time) for key in keys for time, value in TIMES])
    return cluster


def versions_of(key: str) -> list[VersionRow]:
    return [VersionRow(key, *row) for row in ROWS]


@pytest.mark.parametrize("key", ["k1", *STRANGE], ids=lambda key: key[:4] or "empty")
async def test_any_key_has_its_versions(
    start_cluster: StartCluster, connect: Connect, key: str
) -> None:
    client = await connect(await filled(start_cluster))
    everything = versions_of(key)
    assert await client.call("version", key) == everything[2]
    assert await client.call("version", key, 2999) == everything[1]
    assert await client.call("version", key, "1970-01-01T00:00:01Z") == everything[0]
    assert await client.call("version", key, 3500) is None
    assert await client.all("versions", key) == everything[::-1]
    assert await client.all("versions", key, order="ASCENDING", limit=2) == everything[:2]
    assert await client.all("versions", key, from_=2000, to="1970-01-01T00:00:03.500Z") == [
        everything[1]
    ]
    assert client.position.topics


async def test_a_history_of_pages_is_whole(start_cluster: StartCluster, connect: Connect) -> None:
    cluster, keys = await start_cluster(2, engine="memory", **VERSIONED), ("k1", "")
    times = range(1, PAGE_ROWS + 51)
    await cluster.put([Put(key.encode(), b"%d" % time, time) for key in keys for time in times])
    client = await connect(cluster)
    for key in keys:
        expected = [VersionRow(key, time, time, time + 1) for time in times[:-1]]
        expected.append(VersionRow(key, times[-1], times[-1], None))
        assert await client.all("versions", key, order="ASCENDING") == expected


async def test_failures_are_raised(start_cluster: StartCluster, connect: Connect) -> None:
    client = await connect(await filled(start_cluster))
    for key in ("k1", ""):
        with pytest.raises(RangeReversedError):
            await client.all("versions", key, from_=2, to=1)
    with pytest.raises(UnknownQueryTypeError, match="VersionedKeyQuery"):
        await client.get("k1")
    other = await connect(await start_cluster(1, engine="memory"))
    with pytest.raises(UnknownQueryTypeError, match="KeyValue store"):
        await other.call("version", "k1")


def read(done: Finished) -> Any:
    assert (done.code, done.err) == (0, ""), done.err
    return json.loads(done.out)


async def test_the_command_prints_versions(
    start_cluster: StartCluster, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    cluster = await filled(start_cluster)
    table = (await run(cluster, "k1")).out.splitlines()
    words = [word.strip() for word in table[0].split("  ") if word.strip()]
    assert words == ["KEY", "VALID FROM", "VALID TO", "VALUE"]
    assert len(table) == 1 + len(ROWS)
    assert "1970-01-01T00:00:04Z" in table[1]
    rows = read(await run(cluster, "k1", "--order", "ASCENDING", "--limit", "2", "-o", "json"))
    assert [(row["value"], row["validFrom"], row["validTo"]) for row in rows] == ROWS[:2]
    (row,) = read(await run(cluster, "k1", "--as-of", "1970-01-01T00:00:02Z", "-o", "json"))
    assert row == {"key": "k1", "validFrom": 2000, "validTo": 3000, "value": 2}
    (row,) = read(await run(cluster, "k1", "--from", "3000", "-o", "json", "--times", "rfc3339"))
    assert (row["validFrom"], row["validTo"]) == ("1970-01-01T00:00:04Z", None)


@pytest.mark.parametrize(
    ("arguments", "code", "word"),
    [
        (("k1", "--as-of", "3500"), 3, "KEY_NOT_FOUND"),
        (("k1", "--as-of", "1", "--from", "2"), 2, "--as-of"),
        (("k1", "--from", "2", "--to", "1"), 2, "RANGE_REVERSED"),
        ((), 2, "key"),
    ],
)
async def test_the_command_ends_with_the_reason(
    start_cluster: StartCluster, run: Run, arguments: tuple[str, ...], code: int, word: str
) -> None:
    done = await run(await filled(start_cluster), *arguments)
    assert (done.code, done.out) == (code, "")
    assert word in done.err
