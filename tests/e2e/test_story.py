"""One store with the data of the real job, from helm install to helm uninstall.

Each step ends with a comparison of every key. In most steps the operator is killed, at a moment
that follows from the seed E2E_SEED, which the test prints.
"""

import json
import os
import sys
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from e2e import flights
from e2e.clients import PodClient, start_client
from e2e.disturbances import kill, other_node, without_its_operator
from e2e.environment import Images, Tell, on_testbed
from e2e.kubectl import Cluster
from e2e.namespaces import fresh_namespace
from e2e.releases import cluster_objects, install, kept_objects, own_objects
from e2e.stores import (
    claims_of,
    has_grown,
    is_ready,
    is_up,
    pods_of,
    says,
    settled,
    small_store,
    uids_of,
)
from qss_client import Store
from qss_testing.waiting import wait_until

_SEED = int(os.environ.get("E2E_SEED", "1"))
_MOMENTS = 4
_FIRST_ANSWER_S = 60.0
_STORE = flights.STORE
_QSS = f"qss/{_STORE}"
_VICTIM = f"{_STORE}-1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """The namespaces, images and client of the test, and the name of the current step."""

    system: Cluster
    here: Cluster
    images: Images
    next_store_image: str
    step: str
    client: PodClient

    def disturbed(self, act: Callable[[], object]) -> None:
        """Runs `act` while the operator is killed."""
        moment = zlib.crc32(f"{_SEED} {self.step}".encode()) % _MOMENTS
        without_its_operator(act, moment, self.system, self.here, _STORE)

    def install(self, **values: str) -> None:
        """Installs the release with rights in the store's namespace only."""
        watched = {"watch.namespaces": f"{{{self.here.namespace}}}"}
        install(self.system, self.images, values={**watched, **values})

    def by_the_service(self) -> Store:
        """A client on this machine, which has a route to services of the test bed."""
        audience = f"queryablestate.dev/{self.here.namespace}/{_STORE}"
        token = self.here.kubectl("create", "token", "client", f"--audience={audience}")
        address = self.here.get("service", _STORE)["spec"]["clusterIP"]
        return Store(f"http://{address}:8080", _STORE, token=token.strip(), direct=False)

    def by_qss(self) -> dict[str, Any]:
        """All rows, read by `qss` from outside of the cluster."""
        place = ("--kube", f"{self.here.namespace}/{_STORE}", "--service-account", "client")
        options = ("--output", "ndjson", "--limit", "10000")
        said = self.here.run(sys.executable, "-m", "qss_client", "scan", *place, *options)
        return {row["key"]: row["value"] for row in map(json.loads, said.splitlines())}


def apply_the_store(story: Story) -> None:
    flights.start_store(story.here, story.images, storageClassName="expandable")
    story.here.wait(_QSS, "condition=Ready")
    row = story.here.kubectl("get", "qss", _STORE).splitlines()[1].split()
    assert row[:6] == [_STORE, "3/3", "12/12", "24/24", "0/0", "Serving"]
    with story.by_the_service() as store:
        assert store.get("N14228") is None


def run_the_job_and_kill_a_store_pod(story: Story) -> None:
    flights.start_job(story.here, story.images)
    flights.wait_for_batches(story.here, 2)
    nodes = flights.wait_for_executors(story.here)
    assert len(set(nodes.values())) == 2, nodes
    uid = uids_of(story.here, _STORE)[_VICTIM]

    def kill_it() -> None:
        kill(story.here, _VICTIM)
        assert "completionTime" not in story.here.get(flights.JOB)["status"], "the job still runs"

    story.disturbed(kill_it)
    flights.wait_for_end(story.here)
    assert uids_of(story.here, _STORE)[_VICTIM] != uid


def ask_from_everywhere(story: Story) -> None:
    with story.by_the_service() as store:
        flights.check_rows({row.key: row.value for row in store.range()})
    flights.check_rows(story.by_qss())
    flights.check_rows(story.client.read(_STORE))


def roll_the_image(story: Story) -> None:
    before = contents(story)
    image = story.next_store_image
    story.disturbed(lambda: story.here.patch(_QSS, {"spec": {"pod": {"image": image}}}))
    wait_until(lambda: len(contents(story)) == 3 and not contents(story) & before, 180.0)


def contents(story: Story) -> set[tuple[str, str]]:
    """The pods, and the digests of their images."""
    return {
        (pod["metadata"]["name"], one["imageID"])
        for pod in pods_of(story.here, _STORE)
        for one in pod["status"].get("containerStatuses", ())
        if one.get("imageID")
    }


def grow_the_volumes(story: Story) -> None:
    uids = uids_of(story.here, _STORE)
    story.disturbed(lambda: story.here.patch(_QSS, {"spec": {"storage": {"size": "2Gi"}}}))
    wait_until(lambda: has_grown(story.here, _STORE, "2Gi"), 90.0)
    story.here.until(_QSS, says("StorageResizing", "NoResize"))
    assert uids_of(story.here, _STORE) == uids, "volumes grow under running pods"


def cut_the_power_of_a_node(story: Story) -> None:
    node, uids = other_node(story.here), uids_of(story.here, _STORE)

    def cut() -> None:
        on_testbed("node-down", node.removeprefix("node"))
        story.here.wait(f"node/{node}", "condition=Ready=Unknown", 90.0)

    try:
        story.disturbed(cut)
    finally:
        on_testbed("node-up", node.removeprefix("node"))
    story.here.wait(f"node/{node}", "condition=Ready", 90.0)
    wait_until(lambda: all(is_up(pod) for pod in pods_of(story.here, _STORE)), 120.0)
    assert uids_of(story.here, _STORE) == uids, "the pods are the same after the power cut"


def drain_a_node(story: Story) -> None:
    node = other_node(story.here)
    gently = ("--ignore-daemonsets", "--delete-emptydir-data", "--timeout=240s")
    try:
        story.disturbed(lambda: story.here.kubectl("drain", node, *gently, timeout_s=260))
        settled(story.here, _STORE)
        assert node not in {one["spec"]["nodeName"] for one in pods_of(story.here, _STORE)}
    finally:
        story.here.kubectl("uncordon", node)


def upgrade_the_release(story: Story) -> None:
    uids = uids_of(story.here, _STORE)
    rolled = replace(story, images=replace(story.images, store=story.next_store_image))
    story.disturbed(lambda: rolled.install(**{"operator.logLevel": "debug"}))
    settled(story.here, _STORE)
    assert uids_of(story.here, _STORE) == uids, "an upgrade of the operator restarts no store"


def delete_the_stores(story: Story) -> None:
    storage = {"size": "1Gi", "whenDeleted": "Delete"}
    story.here.apply(small_store("passing", storage=storage))
    story.here.until("qss/passing", is_ready)
    stores = (_STORE, "passing")
    story.disturbed(
        lambda: story.here.kubectl("delete", "qss", *stores, "--timeout=120s", timeout_s=130)
    )
    left = ("all,pvc,sa,pdb,networkpolicy", "--selector", "queryablestate.dev/store")
    kept = {f"data-{_STORE}-{ordinal}" for ordinal in range(3)}
    wait_until(lambda: {one["metadata"]["name"] for one in story.here.items(*left)} == kept, 60.0)
    assert len(claims_of(story.here, _STORE)) == 3


def uninstall_the_release(story: Story) -> None:
    story.system.helm("uninstall", "qss", "--wait", "--timeout=60s")
    wait_until(lambda: not own_objects(story.system), 60.0)


_DISTURBANCES = (
    roll_the_image,
    grow_the_volumes,
    cut_the_power_of_a_node,
    drain_a_node,
    upgrade_the_release,
)


@pytest.mark.usefixtures("own_bed")
def test_a_store_keeps_every_key_from_helm_install_to_helm_uninstall(
    cluster: Cluster, namespace: Cluster, images: Images, next_store_image: str, tell: Tell
) -> None:
    tell(f"story: E2E_SEED={_SEED}")
    before = cluster_objects(cluster)

    def timed(step: Callable[[Story], object], story: Story) -> None:
        began_s = time.monotonic()
        name = step.__name__.replace("_", " ")
        step(replace(story, step=name))
        tell(f"story: {name}: {time.monotonic() - began_s:.1f} s")

    with fresh_namespace(cluster, "qss-e2e-story-system") as system:
        story = Story(
            system=system,
            here=namespace,
            images=images,
            next_store_image=next_store_image,
            step="",
            client=start_client(namespace, images.store),
        )
        began_s = time.monotonic()
        timed(Story.install, story)
        timed(apply_the_store, story)
        answered_s = time.monotonic() - began_s
        tell(f"story: first answer {answered_s:.1f} s after helm install")
        assert answered_s < _FIRST_ANSWER_S
        timed(run_the_job_and_kill_a_store_pod, story)
        timed(ask_from_everywhere, story)
        for step in _DISTURBANCES:
            timed(step, story)
            settled(namespace, _STORE)
            flights.check_rows(story.client.read(_STORE))
        timed(delete_the_stores, story)
        timed(uninstall_the_release, story)
        assert cluster_objects(cluster) - before <= kept_objects(system)
