"""The operator's access to a cluster, its lease and its events, over real HTTP."""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from qss_operator.kubernetes.api.client import KubernetesApi, connect
from qss_operator.kubernetes.api.connection import KubeconfigError
from qss_operator.kubernetes.api.errors import UnauthorizedError
from qss_operator.kubernetes.api.kinds import EVENTS, LEASES, STORES
from qss_operator.kubernetes.api.requests import Object
from qss_operator.kubernetes.api.retries import RetryLimits
from qss_operator.kubernetes.events.event_limits import EventType, Subject
from qss_operator.kubernetes.events.poster import Events
from qss_operator.kubernetes.leadership.lease import Leadership
from qss_operator.kubernetes.leadership.lease_rules import LeaseSettings
from qss_testing.fakes.toy_api_server import ToyApiServer
from qss_testing.kinds import CONFIG_MAPS
from qss_testing.waiting import wait_until_async

CALM = RetryLimits(try_s=30.0, total_s=60.0, pause_s=0.001, pause_s_max=0.01)


@pytest.fixture
async def server() -> AsyncIterator[ToyApiServer]:
    async with ToyApiServer(token="secret") as server:
        yield server


@pytest.fixture
async def api(server: ToyApiServer, tmp_path: Path) -> AsyncIterator[KubernetesApi]:
    kubeconfig = server.write_kubeconfig(tmp_path / "config")
    async with connect(str(kubeconfig), patience=CALM) as api:
        yield api


def config_map(name: str) -> Object:
    return {"metadata": {"name": name}, "data": {}}


# --- Credentials


async def test_a_token_that_was_replaced_is_read_again(
    server: ToyApiServer, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    token.write_text("secret\n")
    kubeconfig = server.write_kubeconfig(tmp_path / "config")
    document = json.loads(kubeconfig.read_text())
    document["users"][0]["user"] = {"tokenFile": "token"}
    kubeconfig.write_text(json.dumps(document))
    async with connect(str(kubeconfig), patience=CALM) as api:
        await api.create(CONFIG_MAPS, "shop", config_map("a"))
        server.token = "newer"
        with pytest.raises(UnauthorizedError):
            await api.get(CONFIG_MAPS, "shop", "a")
        token.write_text("newer\n")
        # A write is repeated, too: the server has not carried out a request with an unknown token.
        await api.merge_patch(CONFIG_MAPS, "shop", "a", {"data": {"x": "1"}})


async def test_a_kubeconfigs_other_context_is_used(server: ToyApiServer, tmp_path: Path) -> None:
    kubeconfig = server.write_kubeconfig(tmp_path / "config", "other")
    document = json.loads(kubeconfig.read_text())
    document["current-context"] = "missing"
    kubeconfig.write_text(json.dumps(document))
    async with connect(str(kubeconfig), "other") as api:
        assert await api.list(CONFIG_MAPS, "shop") == []
    with pytest.raises(KubeconfigError, match="missing"):
        async with connect(str(kubeconfig)):
            pass


@pytest.mark.parametrize("text", ["", "no: [", "[]", "{}", '{"users": 3}', '{"clusters": "x"}'])
async def test_what_is_no_kubeconfig_is_said(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config"
    path.write_text(text)
    with pytest.raises(KubeconfigError, match=str(path)):
        async with connect(str(path)):
            pass
    with pytest.raises(KubeconfigError, match="no kubeconfig at"):
        async with connect(str(tmp_path / "absent")):
            pass


# --- The lease, with real time


SHORT = LeaseSettings(
    namespace="qss",
    name="operator",
    identity="one",
    duration_s=4.0,
    renew_deadline_s=0.5,
    retry_s=0.1,
    attempt_s=0.2,
)
LONG = replace(SHORT, duration_s=60.0, renew_deadline_s=30.0, attempt_s=10.0)


def leadership(
    api: KubernetesApi, identity: str, lost: list[str], settings: LeaseSettings = SHORT
) -> Leadership:
    return Leadership(
        api,
        replace(settings, identity=identity),
        clock=api.clock,
        sleep=asyncio.sleep,
        chance=lambda: 0.5,
        on_lost=lost.append,
    )


async def test_a_released_lease_is_taken_at_once(server: ToyApiServer, api: KubernetesApi) -> None:
    lost: list[str] = []
    async with leadership(api, "one", lost, LONG).held():
        second = leadership(api, "two", lost, LONG)
        waiting = asyncio.create_task(second.acquire())
        await wait_until_async(lambda: sum(one.method == "GET" for one in server.asked) >= 3)
        assert not second.is_held
    async with asyncio.timeout(20):  # It would be free after 60 s.
        await waiting
    assert second.is_held
    await second.release()
    spec = (await api.get(LEASES, "qss", "operator"))["spec"]
    assert (spec["holderIdentity"], spec["leaseTransitions"]) == ("", 1)
    assert lost == []


async def test_requests_that_hang_lose_the_lease_in_time(
    server: ToyApiServer, api: KubernetesApi
) -> None:
    lost: list[str] = []
    first, second = leadership(api, "one", lost), leadership(api, "two", lost)
    await first.acquire()
    held_until_s = first.held_until_s
    assert held_until_s is not None
    server.next_hangs("PUT", times=99)
    await first.hold()
    assert lost == ["was not renewed in time"]
    free_at_s = held_until_s - SHORT.renew_deadline_s + SHORT.duration_s
    assert api.clock.monotonic_s() < free_at_s, "before another one may take it"
    assert not first.is_held
    server.forget()
    server.release()
    await second.acquire()
    assert second.is_held


async def test_an_event_is_one_object_however_often_it_comes(
    server: ToyApiServer, api: KubernetesApi
) -> None:
    tokens = iter("ab")
    events = Events(api, reporter="one", clock=api.clock, token=lambda: next(tokens))
    subject = Subject(kind=STORES, namespace="shop", name="words", uid="u1")
    running = asyncio.create_task(events.run())
    for _ in range(3):
        events.post(subject, EventType.WARNING, "PodsFailing", "words-0 ended with code 3")
    await events.drain()
    server.next_answer(403, "Forbidden")
    events.post(subject, EventType.NORMAL, "PodsStarting", "1 of 3 pods runs")
    await events.drain()
    running.cancel()
    (event,) = await api.list(EVENTS, "shop")
    assert (event["metadata"]["name"], event["count"]) == ("words.a", 3)
