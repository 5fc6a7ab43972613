"""The operator shows each pod only a token for its own store, also during an upgrade."""

import asyncio
import http.client
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from qss_client.clock import SystemClock
from qss_core.model import Ordinal, PodAddress, PodName, StoreAssignment, StoreName
from qss_core.wire.conditions import TellConditionsRequest
from qss_core.wire.losses import AcceptLossRequest
from qss_core.wire.messages import encode
from qss_core.wire.replica_reports import ReplicasReport
from qss_core.wire.retirement import RetireRequest
from qss_operator.http_pods import HttpPods
from qss_operator.kubernetes.access.audiences import audiences_of as made_with
from qss_operator.kubernetes.access.pod_access import PodAccess
from qss_operator.kubernetes.access.tokens import StoreTokens
from qss_operator.kubernetes.api.client import connect
from qss_operator.kubernetes.api.kinds import PODS, STATEFUL_SETS, STORES
from qss_operator.kubernetes.names import StoreNames
from qss_operator.kubernetes.store_loop import StoreLoop
from qss_store.access.setup import audiences_of
from qss_store.access.token_claims import Audiences, claims_of
from qss_store.runtime.command_line import parse_arguments
from qss_testing.fakes.reviewer import AUDIENCE, COMMON, Reviewer, make_token
from qss_testing.fakes.simulated_pod import STORE
from qss_testing.fakes.strange_pods import pod_that
from qss_testing.fakes.toy_api_server import ToyApiServer
from qss_testing.fakes.toy_cluster import NAMESPACE, PODS_OF_STORE, ToyCluster, toy_cluster
from qss_testing.pods.guarded import OPERATOR, guarded, rights
from qss_testing.pods.pod_process import PodCluster

CLOCK = SystemClock()
CHECKED = {"authentication": "ServiceAccount"}
OWN = f"queryablestate.dev/{NAMESPACE}/{STORE}"


def taken_by(pod: Any) -> Audiences:
    """The audiences that a pod takes, from its command line."""
    arguments = pod["spec"]["containers"][0]["args"]
    told = [one.replace("$(QSS_ORDINAL)", "0") for one in arguments]
    return audiences_of(parse_arguments([*told, "--kubernetes-api=http://127.0.0.1"]))


@dataclass(slots=True)
class CheckingPods:
    """The pods of a toy cluster; `refused` lists each call whose token the pod would refuse."""

    cluster: ToyCluster
    access: PodAccess
    refused: list[str]

    def check(self, pod: PodAddress) -> None:
        token = self.access.headers(pod).get("Authorization", "").removeprefix("Bearer ")
        found = claims_of(token).audiences
        taken = taken_by(self.cluster.get(PODS, pod.name))
        if not taken.bind(frozenset(found), is_peer=False):
            self.refused.append(f"{pod.name} refuses {found}")

    async def report(self, pod: PodAddress) -> ReplicasReport | None:
        self.check(pod)
        return await self.cluster.report(pod)

    def refusal(self, pod: PodAddress) -> str | None:
        return self.cluster.refusal(pod)

    async def assign(self, pod: PodAddress, assignment: StoreAssignment) -> ReplicasReport:
        self.check(pod)
        return await self.cluster.assign(pod, assignment)

    async def retire(self, pod: PodAddress, request: RetireRequest) -> ReplicasReport:
        self.check(pod)
        return await self.cluster.retire(pod, request)

    async def accept_loss(self, pod: PodAddress, request: AcceptLossRequest) -> ReplicasReport:
        return await self.cluster.accept_loss(pod, request)

    async def tell_conditions(self, pod: PodAddress, request: TellConditionsRequest) -> None:
        self.check(pod)


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[ToyCluster]:
    async with toy_cluster(tmp_path) as made:
        made.server.issue = lambda account, audience: make_token(account, audience=audience)
        refused: list[str] = []
        made.shared = replace(
            made.shared, pods_of=lambda access: CheckingPods(made, access, refused)
        )
        made.store_loop = new_operator(made)
        yield made
        assert refused == [], "no pod may refuse the operator in any test"


def new_operator(cluster: ToyCluster) -> StoreLoop:
    return StoreLoop(NAMESPACE, StoreName(STORE), cluster.shared)


def audiences_asked(cluster: ToyCluster) -> list[str]:
    """The audiences of the tokens that the operator has requested."""
    asked = [one for one in cluster.server.asked if one.path.endswith("/token")]
    assert all("/namespaces/qss-system/serviceaccounts/operator/" in one.path for one in asked)
    return [one.body["spec"]["audiences"][0] for one in asked]


# --- Requested tokens


async def test_the_operator_requests_one_token_for_the_store_only(cluster: ToyCluster) -> None:
    cluster.make_store(access=CHECKED)
    await cluster.settle()
    assert cluster.condition("Ready")["status"] == "True"
    assert audiences_asked(cluster) == [OWN]
    assert {taken_by(cluster.get(PODS, pod)) for pod in PODS_OF_STORE} == {Audiences(own=OWN)}


async def test_a_refused_token_request_is_reported_and_no_other_token_is_shown(
    cluster: ToyCluster, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.make_store(access=CHECKED)
    await cluster.settle()
    cluster.store_loop = new_operator(cluster)
    cluster.server.next_answer(
        403,
        "Forbidden",
        'User "op" cannot create resource "serviceaccounts/token"',
        word="/serviceaccounts/operator/token",
        times=99,
    )
    assert (await cluster.store_loop.run_round())[0] == "failed"
    degraded = cluster.condition("Degraded")
    assert degraded["reason"] == "TokenRequest"
    assert degraded["message"].startswith(f"the operator has no token with the audience {OWN}: ")
    assert "serviceaccounts/token" in caplog.text
    cluster.server.forget()
    cluster.store_loop.wake()
    await cluster.settle()
    assert cluster.condition("Degraded")["status"] == "False"


async def test_the_token_of_a_deleted_store_is_dropped(cluster: ToyCluster) -> None:
    cluster.make_store(access=CHECKED)
    await cluster.settle()
    assert cluster.store_loop.access is not None
    cluster.delete(STORES, STORE)
    await cluster.settle()
    assert cluster.store_loop.access is None


# --- Stores of an older operator


def make_older(cluster: ToyCluster) -> None:
    """Makes set and pods like those of an operator that knows only the common audience."""

    def older(spec: Any) -> Any:
        container = spec["containers"][0]
        arguments = [
            f"--token-audience={COMMON}" if one.startswith("--token-audience=") else one
            for one in container["args"]
        ]
        volumes = [
            {
                **one,
                "projected": {"sources": [{"serviceAccountToken": {"audience": COMMON}}]},
            }
            if one["name"] == "token"
            else one
            for one in spec["volumes"]
        ]
        return {**spec, "containers": [{**container, "args": arguments}], "volumes": volumes}

    found = cluster.get(STATEFUL_SETS, STORE)["spec"]["template"]
    hashed = {"annotations": {"queryablestate.dev/template": "older"}}
    template = {"metadata": hashed, "spec": older(found["spec"])}
    cluster.edit(STATEFUL_SETS, STORE, {"spec": {"template": template}})
    for name in PODS_OF_STORE:
        pod = cluster.get(PODS, name)
        cluster.edit(PODS, name, {"metadata": hashed, "spec": older(pod["spec"])})


def check_that_peers_meet(cluster: ToyCluster) -> None:
    """Every pod takes the audience that every other pod shows."""
    pods = [cluster.get(PODS, name) for name in cluster.names(PODS)]
    for pod in pods:
        taken = taken_by(pod)
        for other in pods:
            shown = made_with(other["spec"])
            assert shown is not None
            name, peer = pod["metadata"]["name"], other["metadata"]["name"]
            assert taken.bind(frozenset({shown.shows}), is_peer=True), f"{name} refuses {peer}"


@pytest.mark.parametrize("allows_common", [False, True])
async def test_an_older_store_gets_its_own_audience_without_a_refusal_on_the_way(
    cluster: ToyCluster, allows_common: bool
) -> None:
    cluster.make_store(access={**CHECKED, "commonAudience": allows_common})
    await cluster.settle()
    make_older(cluster)
    assert {taken_by(cluster.get(PODS, pod)).own for pod in PODS_OF_STORE} == {COMMON}
    cluster.store_loop = new_operator(cluster)
    cluster.server.asked.clear()
    restarts, quiet = 0, 0
    while quiet < 5:
        before = {name: cluster.get(PODS, name)["metadata"]["uid"] for name in cluster.names(PODS)}
        result, _ = await cluster.store_loop.run_round()
        gone = before.keys() - set(cluster.names(PODS))
        assert len(gone) <= 1, "pods restart one at a time"
        restarts += len(gone)
        cluster.control()
        cluster.forget_publish_pace()
        check_that_peers_meet(cluster)
        assert restarts <= 9
        quiet = quiet + 1 if result == "settled" else 0
    assert restarts == 9, "each pod restarts three times"
    common = COMMON if allows_common else None
    assert {taken_by(cluster.get(PODS, pod)) for pod in PODS_OF_STORE} == {
        Audiences(own=OWN, common=common)
    }
    assert audiences_asked(cluster) == [COMMON, OWN], "one token for each audience"
    assert cluster.condition("Ready")["status"] == "True"


async def test_an_upgrade_does_not_admit_readers_with_common_tokens(
    cluster: ToyCluster,
) -> None:
    cluster.make_store(access=CHECKED)
    await cluster.settle()
    make_older(cluster)
    cluster.store_loop = new_operator(cluster)
    await cluster.store_loop.run_round()
    taken = taken_by({"spec": cluster.get(STATEFUL_SETS, STORE)["spec"]["template"]["spec"]})
    assert taken == Audiences(own=OWN, peers=COMMON)
    assert not taken.take(frozenset({COMMON}), is_peer=False)


async def test_a_labelled_pod_that_claims_an_older_audience_gets_no_token_after_the_upgrade(
    cluster: ToyCluster,
) -> None:
    cluster.make_store(access=CHECKED)
    await cluster.settle()
    rogue = cluster.get(PODS, PODS_OF_STORE[0])
    container = rogue["spec"]["containers"][0]
    spec = {**rogue["spec"], "containers": [{**container, "args": [f"--token-audience={COMMON}"]}]}
    for owners in (None, rogue["metadata"]["ownerReferences"]):
        name = f"{STORE}-3" if owners is None else f"{STORE}-4"
        metadata = {**rogue["metadata"], "name": name, "uid": name, "ownerReferences": owners}
        cluster.server.objects.create(cluster.place(PODS), {"metadata": metadata, "spec": spec})
        cluster.tell(PODS, name)
    for _ in range(5):
        await cluster.store_loop.run_round()
    template = cluster.get(STATEFUL_SETS, STORE)["spec"]["template"]
    assert taken_by({"spec": template["spec"]}) == Audiences(own=OWN), (
        "the rogue pods begin no upgrade"
    )
    assert audiences_asked(cluster) == [OWN]


# --- A pod of another store, with a foreign program


@dataclass(slots=True)
class RoguePod:
    """A pod that keeps the tokens that it is shown."""

    url: str
    shown: list[str | None]


@asynccontextmanager
async def rogue_pod() -> AsyncIterator[RoguePod]:
    shown: list[str | None] = []

    async def keep(request: web.Request) -> web.Response:
        shown.append(request.headers.get("Authorization"))
        return web.Response(status=500)

    async with pod_that(keep) as url:
        yield RoguePod(url, shown)


async def shown_to_a_rogue_pod(tmp_path: Path, told: str | None) -> str | None:
    """The token that the operator shows to a pod of evil/mine whose arguments name `told`."""
    names = StoreNames(namespace="evil", store=StoreName("mine"))
    arguments = [] if told is None else [f"--token-audience={told}"]
    spec: Any = {"containers": [{"name": "store", "args": arguments}]}
    owners = [{"kind": "StatefulSet", "uid": "set", "controller": True}]
    pods = {"mine-0": {"metadata": {"uid": "pod", "ownerReferences": owners}, "spec": spec}}
    made_by = {"metadata": {"uid": "set"}, "spec": {"template": {"spec": spec}}}
    async with (
        ToyApiServer() as server,
        connect(str(server.write_kubeconfig(tmp_path / "kubeconfig"))) as api,
        aiohttp.ClientSession() as session,
        rogue_pod() as rogue,
    ):
        server.issue = lambda account, audience: make_token(account, audience=audience)
        account = OPERATOR.removeprefix("system:serviceaccount:").replace(":", "/")
        access = PodAccess(names, StoreTokens(api, account, CLOCK), COMMON, CLOCK)
        await access.refresh_tokens(pods, made_by, checks_callers=told is not None)
        address = PodAddress(
            ordinal=Ordinal(0), name=PodName("mine-0"), query=rogue.url, changelog=rogue.url
        )
        await HttpPods(session, access, clock=CLOCK).report(address)
        return rogue.shown[-1]


@pytest.fixture(scope="module")
def words(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PodCluster]:
    """A pod of the store shop/words."""
    with (
        Reviewer(rights()) as reviewer,
        guarded(tmp_path_factory.mktemp("words"), reviewer, pods=1, partitions=1) as pods,
    ):
        yield pods


@pytest.mark.parametrize("told", ["queryablestate.dev/evil/mine", COMMON, AUDIENCE, None])
def test_a_token_shown_to_a_pod_of_another_store_commands_no_store(
    words: PodCluster, tmp_path: Path, told: str | None
) -> None:
    stolen = asyncio.run(shown_to_a_rogue_pod(tmp_path, told))
    assert (stolen is None) == (told in (AUDIENCE, None)), "the pod gets no token of another store"
    held = encode(words.assignment)
    for method, path, body in (
        ("GET", "/control/replicas", None),
        ("PUT", "/control/assignment", held),
    ):
        connection = http.client.HTTPConnection("127.0.0.1", words.pods[0].ports[1], timeout=30)
        headers = {} if stolen is None else {"Authorization": stolen}
        connection.request(method, path, body, headers)
        assert connection.getresponse().status in (401, 403), (method, path)
        connection.close()
