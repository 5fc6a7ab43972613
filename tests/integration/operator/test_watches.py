"""The watches of an operator: a forbidden or silent watch does not stop the others."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from qss_operator.kubernetes.api.client import connect
from qss_operator.kubernetes.api.kinds import STORES
from qss_operator.kubernetes.kopf_watch import Seen, WatchThread
from qss_operator.kubernetes.stores import Stores
from qss_operator.kubernetes.watches import CHILDREN, Watches
from qss_testing.fakes.simulated_pod import STORE
from qss_testing.fakes.toy_cluster import NAMESPACE, SPEC, ToyCluster, store_context_of, toy_cluster
from qss_testing.fakes.toy_objects import Object, Place
from qss_testing.fakes.virtual_time import SetClock
from qss_testing.fakes.watched_api_server import WatchedApiServer
from qss_testing.waiting import wait_until_async as until

Told = list[tuple[str, str]]


class HeardStores(Stores):
    """Stores that record the events that they get, and start no loops."""

    def __init__(self, cluster: ToyCluster, told: Told) -> None:
        super().__init__(cluster.shared)
        self.told = told
        self.distrusted: list[str | None] = []

    def seen(self, kind: object, event: str | None, body: Object) -> None:
        if kind == STORES:
            self.told.append((body["metadata"]["namespace"], event or "listed"))

    def distrust(self, namespace: str | None) -> None:
        self.distrusted.append(namespace)


@asynccontextmanager
async def watching(
    server: WatchedApiServer,
    kubeconfig: Path,
    namespaces: tuple[str, ...],
    clock: SetClock | None = None,
) -> AsyncIterator[tuple[Told, HeardStores, list[float]]]:
    told: Told = []
    pauses: list[float] = []

    async def sleep(pause_s: float) -> None:
        pauses.append(pause_s)
        await asyncio.sleep(0.02)

    def watch_of(namespace: str | None, seen: Seen) -> WatchThread:
        return WatchThread(namespace, CHILDREN, seen, backoffs_s=(0.01,))

    async with connect(str(kubeconfig)) as api:
        cluster = ToyCluster(server)
        cluster.shared = store_context_of(cluster, api)
        stores = HeardStores(cluster, told)
        watches = Watches(
            api,
            stores,
            cluster.shared.health,
            clock=clock or SetClock(),
            sleep=sleep,
            watch_of=watch_of,
            end_s=0.0,
        )
        task = asyncio.create_task(watches.run(namespaces))
        try:
            yield told, stores, pauses
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


@pytest.fixture
async def server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[WatchedApiServer]:
    async with WatchedApiServer() as made:
        kubeconfig = made.write_kubeconfig(tmp_path / "kubeconfig")
        monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
        yield made


def store_in(namespace: str) -> Object:
    return {"metadata": {"name": "words", "namespace": namespace, "generation": 1}, "spec": SPEC}


def make_store(server: WatchedApiServer, namespace: str) -> Object:
    place = Place(STORES.group, namespace, STORES.plural, None, None)
    return server.objects.create(place, store_in(namespace))


def messages(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The captured messages; a record of another thread may not be formatted yet."""
    return [record.getMessage() for record in caplog.records]


async def test_a_forbidden_namespace_stops_only_its_own_watch(
    server: WatchedApiServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server.forbidden.add("gone")
    kubeconfig = tmp_path / "kubeconfig"
    async with watching(server, kubeconfig, ("gone", "shop")) as (told, _, pauses):
        await until(lambda: server.is_watched(STORES, "shop"))
        await until(lambda: len(pauses) >= 3)
        made = make_store(server, "shop")
        server.announce("ADDED", STORES, made)
        await until(lambda: ("shop", "ADDED") in told)
        lines = [said for said in messages(caplog) if "namespace gone" in said]
        assert len(lines) == 1, "the failure is logged once a minute"
        assert lines[0].startswith("the stores of the namespace gone are not watched: ")
        assert pauses[:3] == [5.0, 10.0, 20.0]
        make_store(server, "gone")
        server.forbidden.clear()
        await until(lambda: ("gone", "listed") in told)
        await until(lambda: server.is_watched(STORES, "gone"))


async def test_a_forbidden_namespace_is_told_again_after_each_minute(
    server: WatchedApiServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server.forbidden.add("gone")
    clock = SetClock()

    def lines() -> int:
        return sum("the namespace gone are not watched: " in said for said in messages(caplog))

    async def further_lists() -> None:
        asked = len(pauses)
        await until(lambda: len(pauses) >= asked + 3)

    async with watching(server, tmp_path / "kubeconfig", ("gone",), clock) as (*_, pauses):
        await further_lists()
        for told in range(1, 4):
            assert lines() == told
            clock.now_s += 59.0
            await further_lists()
            assert lines() == told, "the minute is not over"
            clock.now_s += 1.0
            await further_lists()
        assert lines() == 4


async def test_an_ended_watch_begins_again_and_the_others_continue(
    server: WatchedApiServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "qss_operator")
    kubeconfig = tmp_path / "kubeconfig"
    async with watching(server, kubeconfig, ("shop", "other")) as (told, stores, _):
        await until(lambda: server.is_watched(STORES, "shop"))
        await until(lambda: server.is_watched(STORES, "other"))
        server.forbid("other")
        await until(lambda: stores.distrusted == ["other"])
        assert "are not watched: the watch has stopped" in caplog.text
        server.announce("ADDED", STORES, make_store(server, "shop"))
        await until(lambda: ("shop", "ADDED") in told)
        server.forbidden.clear()
        await until(lambda: server.is_watched(STORES, "other"))
        server.announce("ADDED", STORES, make_store(server, "other"))
        await until(lambda: ("other", "ADDED") in told)


async def test_a_store_that_a_silent_watch_misses_is_found_by_a_list(
    server: WatchedApiServer, tmp_path: Path
) -> None:
    """A silent watch neither reports nor ends; `/livez` reports that."""
    told: Told = []

    class SilentWatch:
        def __init__(self) -> None:
            self.ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()

        def start(self) -> None: ...

        def stop(self) -> None:
            self.ended.set_result("it was stopped")

    async with connect(str(tmp_path / "kubeconfig")) as api:
        cluster = ToyCluster(server)
        cluster.shared = store_context_of(cluster, api)
        health = cluster.shared.health
        watches = Watches(
            api,
            HeardStores(cluster, told),
            health,
            clock=SetClock(),
            watch_of=lambda _, __: SilentWatch(),
            resync_s=0.02,
        )
        task = asyncio.create_task(watches.run(("shop",)))
        await until(lambda: len(server.asked) >= 1)
        make_store(server, "shop")
        await until(health.problems)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert told[0] == ("shop", "listed")
    assert "the watch of queryablestatestores did not report" in health.problems()[0]


async def test_health_reports_the_overdue_round_of_a_store(tmp_path: Path) -> None:
    async with toy_cluster(tmp_path) as cluster:
        cluster.make_store()
        stores = Stores(cluster.shared)
        found = cluster.get(STORES, STORE)
        assert stores.found(found)
        assert not stores.found(found)
        health, clock = cluster.shared.health, cluster.clock
        said = f"a round of {NAMESPACE}/{STORE} should have begun"

        def is_reported_later() -> bool:
            clock.ahead_s += 400.0
            found = any(problem.startswith(said) for problem in health.problems())
            clock.ahead_s -= 400.0
            return found

        # A round that is stopped in its middle would leave nothing due.
        await until(is_reported_later)
        await stores.stop()  # As if its task had ended: the due round does not begin.
        assert not health.problems()
        assert is_reported_later()
