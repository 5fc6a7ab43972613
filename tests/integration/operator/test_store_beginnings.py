"""A loop begins against a toy API server: the CRD, taken names, a store made again."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from qss_operator.kubernetes.api.client import KubernetesApi
from qss_operator.kubernetes.api.kinds import PODS, SERVICES, STATEFUL_SETS, STORES, Kind
from qss_operator.kubernetes.stores import Stores
from qss_operator.kubernetes.watches import wait_for_stores
from qss_testing.fakes.simulated_pod import STORE
from qss_testing.fakes.toy_cluster import NAMESPACE, ToyCluster, toy_cluster
from qss_testing.fakes.toy_objects import Object
from qss_testing.waiting import wait_until_async


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[ToyCluster]:
    async with toy_cluster(tmp_path) as made:
        yield made


@pytest.mark.parametrize("labels", [{}, {"queryablestate.dev/store": "word"}])
async def test_a_foreign_object_is_left_alone_and_reported(
    cluster: ToyCluster, labels: dict[str, str]
) -> None:
    theirs = {"metadata": {"name": STORE, "labels": labels}, "spec": {"selector": {"app": "shop"}}}
    cluster.server.objects.create(cluster.place(SERVICES), theirs)
    cluster.make_store()
    await cluster.settle()
    found = cluster.get(SERVICES, STORE)
    assert found["spec"] == theirs["spec"]
    assert "ownerReferences" not in found["metadata"]
    said = f"Service {STORE} exists and does not belong to this store"
    assert said in cluster.condition("Degraded")["message"]
    assert cluster.names(PODS) == [], "no pod runs without its Service"

    cluster.delete(SERVICES, STORE)
    cluster.pass_pauses()
    await cluster.settle()
    assert cluster.condition("Ready")["status"] == "True"


async def test_a_child_that_lost_its_label_is_taken_back(cluster: ToyCluster) -> None:
    cluster.make_store()
    await cluster.settle()
    cluster.edit(SERVICES, STORE, {"metadata": {"labels": {"queryablestate.dev/store": None}}})
    await cluster.settle()
    labels = cluster.get(SERVICES, STORE)["metadata"]["labels"]
    assert labels["queryablestate.dev/store"] == STORE


class LateApi:
    """An API server whose answer to a read of a store comes late."""

    def __init__(self, api: KubernetesApi) -> None:
        self._api = api
        self.has_read = asyncio.Event()
        self.may_answer = asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._api, name)

    async def find(self, kind: Kind, namespace: str | None, name: str) -> Object | None:
        found = await self._api.find(kind, namespace, name)
        if kind == STORES:
            self.has_read.set()
            await self.may_answer.wait()
        return found


async def test_a_store_made_again_while_its_loop_ends_gets_another_loop(
    cluster: ToyCluster,
) -> None:
    late = LateApi(cluster.shared.api)
    stores = Stores(replace(cluster.shared, api=cast(KubernetesApi, late)))
    seen = {"namespace": NAMESPACE, "name": STORE, "resourceVersion": "1"}
    stores.seen(STORES, "ADDED", {"metadata": {**seen, "uid": "first"}})
    await late.has_read.wait()  # The loop has read that the store is gone.
    cluster.make_store()
    stores.seen(STORES, "ADDED", {"metadata": {**seen, "uid": "second"}})
    late.may_answer.set()
    await wait_until_async(lambda: cluster.find(STATEFUL_SETS, STORE))
    await stores.stop()


async def test_an_operator_waits_for_the_crd(
    cluster: ToyCluster, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.server.unserved.add(STORES.plural)
    waits = 0

    async def sleep(_: float) -> None:
        nonlocal waits
        waits += 1
        if waits == 2:
            cluster.server.unserved.clear()

    await wait_for_stores(cluster.shared.api, (), sleep)
    assert waits == 2
    assert "apply the CRD" in caplog.text
