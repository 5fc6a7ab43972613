"""A store that never answered is given up soon, with a clear message; another one is waited for."""

import asyncio
import re
import signal
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NoReturn

import pytest
from aiohttp.resolver import ThreadedResolver

from qss_client import AsyncStore, RetryLimits
from qss_client.http.async_http import AsyncHttp
from qss_client.http.sync_http import SyncHttp
from qss_client.writes.batch import WRITE_LIMITS, discover
from qss_client.writes.writers import list_writers
from qss_core.errors import StoreNotFoundError, UnreachableError
from qss_spark import StoreSink
from qss_spark.source.datasource import QueryableStateSource
from qss_testing.clients.clients import AnyClient
from qss_testing.clients.qss_command import REAL_POD, Qss
from qss_testing.pods.pod_process import PodCluster
from qss_testing.pods.ports import free_ports
from qss_testing.waiting import wait_until
from qss_testing.writers.writer import write_values

pytestmark = pytest.mark.long

Connect = Callable[..., Awaitable[AnyClient]]
NOBODY = "http://127.0.0.1:1"
# Waits long for a store that answered once; no test here needs that.
SOON = RetryLimits(deadline_s=3600.0, first_contact_s=0.3)
DEADLINE_S = 60.0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PodCluster]:
    with PodCluster(tmp_path_factory.mktemp("pods"), pods=2) as cluster:
        write_values(cluster.url, cluster.store, {"a": 1})
        yield cluster


@pytest.fixture
def silent() -> Iterator[str]:
    """The URL of a port that accepts connections and never answers."""
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


@pytest.fixture(params=["sync", "async"])
async def connect(request: pytest.FixtureRequest) -> AsyncIterator[Connect]:
    clients: list[AnyClient] = []

    async def make(*arguments: Any, **options: Any) -> AnyClient:
        clients.append(AnyClient(request.param, *arguments, **options))
        return clients[-1]

    yield make
    for client in clients:
        await client.close()


async def test_a_dead_url_is_told_soon_in_one_sentence(connect: Connect) -> None:
    client = await connect(NOBODY, "words", limits=SOON)
    async with asyncio.timeout(DEADLINE_S):
        # On a busy machine the last attempt may have too little time for a refusal.
        while "refused" not in (told := await refusal(client)):
            pass
    assert told == (
        "no pod of store words answers (http://127.0.0.1:1: connection refused): "
        "check the URL, and that the store runs"
    )


async def refusal(client: AnyClient) -> str:
    with pytest.raises(UnreachableError) as told:
        await client.get("a")
    return told.value.message


async def test_a_host_that_there_is_not_is_told(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The asynchronous client's limit also ends a look-up, which a busy machine may take long for.

    So its look-up fails at once here.
    """
    monkeypatch.setattr(ThreadedResolver, "resolve", _no_such_host)
    client = await connect("http://nobody.invalid:1", "words", limits=SOON)
    async with asyncio.timeout(DEADLINE_S):
        with pytest.raises(UnreachableError, match=r"http://nobody.invalid:1: no such host"):
            await client.get("a")


async def test_a_look_up_that_takes_long_is_no_port_that_listens(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ThreadedResolver, "resolve", _never)
    http = AsyncHttp()
    try:
        async with asyncio.timeout(DEADLINE_S):
            with pytest.raises(UnreachableError, match=r"slow.invalid:1: no answer within 0.2 s"):
                await http.request("GET", "http://slow.invalid:1", timeout_s=0.2)
            client = AsyncStore("http://slow.invalid:1", "words", limits=SOON)
            with pytest.raises(UnreachableError, match="check the URL, and that the store runs"):
                await client.get("a")
            await client.close()
    finally:
        await http.close()


async def _no_such_host(*_: object, **__: object) -> NoReturn:
    raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")


async def _never(*_: object, **__: object) -> None:
    await asyncio.Event().wait()


async def test_an_address_that_never_answers_is_told(connect: Connect, silent: str) -> None:
    client = await connect(silent, "words", limits=SOON)
    async with asyncio.timeout(DEADLINE_S):
        with pytest.raises(UnreachableError, match=rf"{silent}: no answer within 0.[0-9]+ s"):
            await client.get("a")


async def test_a_port_that_listens_and_does_not_answer_is_no_wrong_url(
    connect: Connect, silent: str
) -> None:
    client = await connect([NOBODY, silent], "words", limits=SOON)
    async with asyncio.timeout(DEADLINE_S):
        with pytest.raises(UnreachableError) as told:
            await client.get("a")
    assert re.fullmatch(
        rf"no pod of store words answers \({NOBODY}: connection refused; {silent}: no answer "
        r"within 0\.\d+ s, but something listens there\): a pod that listens and does not answer "
        r"is frozen or overloaded: look at `qss status words`",
        told.value.message,
    )


def test_a_write_to_a_frozen_pod_says_that_something_listens_there(tmp_path: Path) -> None:
    with PodCluster(tmp_path) as pods:
        process = pods.pods[0].process
        assert process is not None
        process.send_signal(signal.SIGSTOP)
        try:
            with pytest.raises(UnreachableError) as told:
                StoreSink(pods.store, pods.url)
        finally:
            process.send_signal(signal.SIGCONT)
    assert f"{pods.url}: no answer within 4.5 s, but something listens there" in told.value.message
    assert told.value.message.endswith(f"look at `qss status {pods.store}`")
    assert "check the URL" not in told.value.message


async def test_any_of_several_urls_will_do(
    connect: Connect, cluster: PodCluster, silent: str
) -> None:
    urls, limits = [NOBODY, silent, cluster.url], RetryLimits(first_contact_s=30.0)
    for given in (urls, ",".join(urls)):
        client = await connect(given, cluster.store, limits=limits)
        row = await client.get("a")
        assert row is not None
        assert row.value == 1
    http = SyncHttp()
    with closing(http):
        found = discover(http, urls, cluster.store, limits)
        assert found == cluster.metadata
        assert [one.name for one in list_writers(http, urls, cluster.store, limits)] == ["test"]


async def test_what_had_answered_is_waited_for_and_that_is_said(
    connect: Connect, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    limits = RetryLimits(tell_after_s=0.3)
    with PodCluster(tmp_path) as pods:
        write_values(pods.url, pods.store, {"a": 1})
        client = await connect(pods.url, pods.store, limits=limits)
        assert await client.get("a") is not None
        caplog.clear()
        pods.pods[0].kill()
        waiting = asyncio.create_task(client.get("b"))
        await asyncio.to_thread(wait_until, lambda: caplog.records)
        await asyncio.to_thread(pods.pods[0].start)
        await asyncio.to_thread(pods.assign, pods.pods[0])
        assert await waiting is None
    # Between two requests, or in the middle of one.
    url = re.escape(pods.url)
    between = rf"partition 0: {url}: connection refused; asked again for up to \d+ s"
    during = rf"no answer for \d s: waiting for {url} for up to \d+ s more"
    assert re.fullmatch(f"{between}|{during}", caplog.records[0].getMessage())


def test_the_words_of_a_run_of_spark_come_before_it_starts() -> None:
    with pytest.raises(UnreachableError, match=r"connection refused.*check the URL"):
        StoreSink("words", NOBODY)


async def test_a_local_store_is_found_by_its_name(
    connect: Connect, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    local = Qss(tmp_path, REAL_POD)
    monkeypatch.delenv("QSS_URL", raising=False)
    monkeypatch.setenv("QSS_STATE_DIR", str(local.state.path))
    try:
        assert (await asyncio.to_thread(local.up)).code == 0
        StoreSink("word-counts")
        assert QueryableStateSource({"store": "word-counts"}).schema().names[0] == "key"
        client = await connect(store="word-counts")
        assert await client.get("a") is None
    finally:
        await asyncio.to_thread(local.down)
    with pytest.raises(UnreachableError, match=r"store word-counts: .*stopped"):
        await connect(store="word-counts")
    with pytest.raises(StoreNotFoundError, match=r"no local cluster in .* has a store other"):
        await connect(store="other")


def test_a_command_that_finds_nobody_says_that_it_waits_and_ends_with_one_line(
    tmp_path: Path,
) -> None:
    port = free_ports(1)[0]
    for command in (("get", "words", "a"), ("writers", "words")):
        done = Qss(tmp_path).run(*command, "--url", f"http://127.0.0.1:{port}")
        assert (done.code, done.out) == (4, "")
        waits, error = done.err.splitlines()
        assert error.startswith("error: UNREACHABLE: no pod of store words answers (http:")
        # It lasts more than 2 s, and says so; the error alone says why.
        assert re.fullmatch(r"store words has not answered yet; asked again for up to \d s", waits)
        assert done.err.count("connection refused") == 1


def test_a_writer_asks_a_store_that_starts_for_longer() -> None:
    assert WRITE_LIMITS.deadline_s > WRITE_LIMITS.first_contact_s
