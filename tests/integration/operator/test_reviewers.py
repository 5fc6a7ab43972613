"""The accounts of stores that check their callers may ask for reviews, while the stores exist."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from qss_operator.kubernetes.access.review_accounts import NAMESPACE_MAX
from qss_operator.kubernetes.access.reviewers import Reviewers
from qss_operator.kubernetes.api.client import KubernetesApi, connect
from qss_operator.kubernetes.api.kinds import CLUSTER_ROLE_BINDINGS, STORES
from qss_operator.kubernetes.stores import Stores
from qss_testing.fakes.toy_api_server import ToyApiServer
from qss_testing.fakes.toy_cluster import ToyCluster, store_context_of
from qss_testing.fakes.toy_objects import Object, Place
from qss_testing.waiting import wait_until_async

BINDING = "system-qss-store-pods"
_PLACE = Place(CLUSTER_ROLE_BINDINGS.group, None, CLUSTER_ROLE_BINDINGS.plural, BINDING, None)
_ROLE = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": BINDING}


@pytest.fixture
async def server() -> AsyncIterator[ToyApiServer]:
    async with ToyApiServer() as server:
        yield server


@pytest.fixture
async def api(server: ToyApiServer, tmp_path: Path) -> AsyncIterator[KubernetesApi]:
    async with connect(str(server.write_kubeconfig(tmp_path / "config"))) as api:
        yield api


def make_binding(server: ToyApiServer, *subjects: Object) -> None:
    body: Object = {"metadata": {"name": BINDING}, "roleRef": _ROLE}
    server.objects.create(_PLACE, {**body, **({"subjects": [*subjects]} if subjects else {})})


def place_of(namespace: str, name: str) -> Place:
    return Place(STORES.group, namespace, STORES.plural, name, None)


def make_store(server: ToyApiServer, namespace: str, name: str, **access: str) -> Object:
    body = {"metadata": {"name": name}, "spec": {"access": access}}
    return server.objects.create(place_of(namespace, name), body)


def bound(server: ToyApiServer) -> list[str]:
    found = server.objects.get(_PLACE)
    assert found["roleRef"] == _ROLE
    return [f"{one['kind']} {one.get('namespace')}/{one['name']}" for one in found_subjects(found)]


def found_subjects(binding: Object) -> list[Object]:
    return binding.get("subjects") or []


def writes(server: ToyApiServer) -> int:
    return sum(one.method == "PATCH" for one in server.asked)


@asynccontextmanager
async def kept(reviewers: Reviewers) -> AsyncIterator[None]:
    task = asyncio.create_task(reviewers.run())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def test_an_account_is_bound_while_its_store_exists(
    server: ToyApiServer, api: KubernetesApi, tmp_path: Path
) -> None:
    make_binding(server)
    cluster = ToyCluster(server)
    cluster.shared = store_context_of(cluster, api)
    reviewers = Reviewers(api, BINDING, (), anew_s=3600.0)
    stores = Stores(cluster.shared, reviewers)
    async with kept(reviewers):
        words = make_store(server, "shop", "words")
        stores.seen(STORES, "ADDED", words)
        await wait_until_async(lambda: bound(server) == ["ServiceAccount shop/words-pods"])
        other = make_store(server, "barn", "cows", authentication="ServiceAccount")
        stores.seen(STORES, "ADDED", other)
        await wait_until_async(lambda: len(bound(server)) == 2)

        for namespace, store in (("shop", words), ("barn", other)):
            server.objects.objects.pop(place_of(namespace, store["metadata"]["name"]).key)
            stores.seen(STORES, "DELETED", store)
        await wait_until_async(lambda: bound(server) == [])
    await stores.stop()


async def test_only_stores_that_check_their_callers_are_bound(
    server: ToyApiServer, api: KubernetesApi
) -> None:
    make_binding(server, {"kind": "Group", "name": "system:serviceaccounts"})
    make_store(server, "shop", "words")
    make_store(server, "shop", "open", authentication="None")
    reviewers = Reviewers(api, BINDING, ())
    await reviewers.refresh()
    assert bound(server) == ["ServiceAccount shop/words-pods"], "the group is removed"
    before = writes(server)
    await reviewers.refresh()
    assert writes(server) == before, "a correct binding is not written again"


async def test_a_store_that_stops_checking_stays_bound_as_its_pods_are_not_restarted_yet(
    server: ToyApiServer, api: KubernetesApi
) -> None:
    make_binding(server)
    make_store(server, "shop", "words")
    reviewers = Reviewers(api, BINDING, ())
    await reviewers.refresh()
    server.objects.patch(
        place_of("shop", "words"), {"spec": {"access": {"authentication": "None"}}}
    )
    for one in (reviewers, Reviewers(api, BINDING, ())):
        await one.refresh()
        assert bound(server) == ["ServiceAccount shop/words-pods"], (
            "a new operator keeps the account, too"
        )
    server.objects.objects.pop(place_of("shop", "words").key)
    await reviewers.refresh()
    assert bound(server) == []


async def test_a_store_that_was_made_again_without_an_event_is_bound_when_a_list_finds_it(
    server: ToyApiServer, api: KubernetesApi
) -> None:
    make_binding(server)
    reviewers = Reviewers(api, BINDING, (), anew_s=3600.0)
    async with kept(reviewers):
        reviewers.seen("ADDED", make_store(server, "shop", "words"))
        await wait_until_async(lambda: bound(server) == ["ServiceAccount shop/words-pods"])
        server.objects.objects.pop(place_of("shop", "words").key)
        other = make_store(server, "shop", "birds")
        reviewers.seen("ADDED", other)
        await wait_until_async(lambda: bound(server) == ["ServiceAccount shop/birds-pods"])
        reviewers.seen(None, make_store(server, "shop", "words"))
        await wait_until_async(lambda: len(bound(server)) == 2)


async def test_a_binding_that_another_client_changed_is_corrected_without_a_watch(
    server: ToyApiServer, api: KubernetesApi
) -> None:
    """A rollback of the chart writes the binding, or an upgrade from a chart that named groups."""
    make_binding(server)
    make_store(server, "shop", "words")
    async with kept(Reviewers(api, BINDING, (), look_s=0.01, anew_s=3600.0)):
        for written in (None, [{"kind": "Group", "name": "system:serviceaccounts"}]):
            await wait_until_async(lambda: bound(server) == ["ServiceAccount shop/words-pods"])
            server.objects.patch(_PLACE, {"subjects": written})
        await wait_until_async(lambda: bound(server) == ["ServiceAccount shop/words-pods"])


async def test_an_unchanged_binding_costs_only_reads_of_the_binding(
    server: ToyApiServer, api: KubernetesApi
) -> None:
    make_binding(server)
    make_store(server, "shop", "words")
    async with kept(Reviewers(api, BINDING, (), look_s=0.01, anew_s=3600.0)):
        await wait_until_async(lambda: bound(server) == ["ServiceAccount shop/words-pods"])
        await wait_until_async(lambda: server.asked[-1].method == "GET")
        server.asked.clear()
        await wait_until_async(lambda: len(server.asked) > 5)
    assert {one.path.rpartition("/")[2] for one in server.asked} == {BINDING}


async def test_accounts_beyond_the_limit_are_logged_once_by_their_namespace(
    server: ToyApiServer, api: KubernetesApi, caplog: pytest.LogCaptureFixture
) -> None:
    make_binding(server)
    for number in range(NAMESPACE_MAX + 2):
        make_store(server, "evil", f"store{number}")
    make_store(server, "shop", "words")
    reviewers = Reviewers(api, BINDING, ())
    for _ in range(2):
        await reviewers.refresh()
    assert len(bound(server)) == NAMESPACE_MAX + 1
    assert "ServiceAccount shop/words-pods" in bound(server)
    told = [one for one in caplog.messages if "has no place" in one]
    assert len(told) == 1
    assert "2 of evil" in told[0]


@pytest.mark.parametrize(
    ("watched", "expected"),
    [
        (("shop",), ["barn/cows-pods", "shop/words-pods"]),
        (("shop", "barn"), ["barn/cows-pods", "shop/words-pods"]),
        (("barn",), ["shop/gone-pods"]),
        ((), ["barn/cows-pods", "shop/words-pods"]),
    ],
)
async def test_stores_in_unwatched_namespaces_stay_bound(
    server: ToyApiServer, api: KubernetesApi, watched: Sequence[str], expected: list[str]
) -> None:
    """Their pods still serve, and ask for reviews of every token."""
    accounts = (("barn", "cows-pods"), ("shop", "gone-pods"))
    make_binding(
        server,
        *({"kind": "ServiceAccount", "namespace": at, "name": name} for at, name in accounts),
    )
    make_store(server, "shop", "words")
    if watched != ("barn",):
        make_store(server, "barn", "cows")
    await Reviewers(api, BINDING, watched).refresh()
    assert bound(server) == [f"ServiceAccount {one}" for one in expected]


async def test_an_unreadable_namespace_does_not_hold_up_the_others(
    server: ToyApiServer, api: KubernetesApi
) -> None:
    make_binding(server, {"kind": "ServiceAccount", "namespace": "barn", "name": "cows-pods"})
    make_store(server, "shop", "words")
    server.next_answer(403, "Forbidden", word="namespaces/barn/")
    await Reviewers(api, BINDING, ("barn", "shop")).refresh()
    assert bound(server) == ["ServiceAccount barn/cows-pods", "ServiceAccount shop/words-pods"]


async def test_a_refused_write_is_logged_once_and_tried_again(
    server: ToyApiServer, api: KubernetesApi, caplog: pytest.LogCaptureFixture
) -> None:
    make_binding(server)
    make_store(server, "shop", "words")
    server.next_answer(403, "Forbidden", "no bind", word="PATCH", times=3)
    async with kept(Reviewers(api, BINDING, (), again_s=0.01)):
        await wait_until_async(lambda: bound(server) == ["ServiceAccount shop/words-pods"])
    told = [one for one in caplog.messages if "is not brought up to date" in one]
    assert len(told) == 1
    assert "no bind" in told[0]


async def test_without_a_binding_the_api_server_gets_no_request(
    server: ToyApiServer, api: KubernetesApi
) -> None:
    make_store(server, "shop", "words")
    await Reviewers(api, "", ()).run()
    assert server.asked == []
