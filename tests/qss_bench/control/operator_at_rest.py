"""Measures an operator's memory and requests at rest, with 1, 50 and 200 stores of 3 pods.

`python -m qss_bench.control.operator_at_rest [--standbys N] [COUNT...]` uses the cluster of
KUBECONFIG, where it needs the permissions of the chart; the test bed will do. API server and
controllers are real. The pods run on a node that this process simulates, which also answers for
the pods. All objects are deleted at the end.
"""

import argparse
import asyncio
import os
import re
import sys
import tempfile
import urllib.request
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import yaml
from aiohttp import web

from e2e.environment import CRD
from e2e.stores import is_ready, small_store
from qss_client.clock import SystemClock
from qss_core.errors import StoreError
from qss_core.model import Ordinal, StoreAssignment, StoreName
from qss_core.wire.messages import decode, encode, problem_of
from qss_operator.kubernetes.api.client import KubernetesApi, connect
from qss_operator.kubernetes.api.kinds import (
    LEASES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
    STORES,
    Kind,
)
from qss_operator.kubernetes.names import CHANGELOG_PORT, ORDINAL_LABEL, STORE_LABEL
from qss_operator.times import micro_time_of, time_of, utc
from qss_testing.fakes.fake_pod import FakePod
from qss_testing.kinds import CUSTOM_RESOURCE_DEFINITIONS
from qss_testing.pods.ports import free_ports

COUNTS = (1, 50, 200)
PODS_A_STORE = 3
PARTITIONS = 12
REST_S = 120.0
READY_WITHIN_S = 1200.0
NAMESPACE = NODE = "qss-bench-operator"
_VOLUMES = Kind("", "v1", "persistentvolumes", "PersistentVolume", namespaced=False)
_NAMESPACES = Kind("", "v1", "namespaces", "Namespace", namespaced=False)
_COUNTED = re.compile(
    r'^qss_operator_api_requests_total\{code=".*",resource="(.*)",verb="(.*)"\} (\S+)', re.MULTILINE
)
_READY = [{"type": one, "status": "True"} for one in ("PodScheduled", "ContainersReady", "Ready")]
Object = dict[str, Any]


class Kubelet:
    """Simulates a node: reports its pods as running, and answers for them on the loopback."""

    def __init__(self, api: KubernetesApi, directory: Path) -> None:
        """`directory` has the assignments of the pods."""
        self._api = api
        self._directory = directory
        self._clock = SystemClock()
        self._pods: dict[str, FakePod] = {}  # By address.
        self._volumes: set[str] = set()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """The node exists during the block."""
        app = web.Application()
        app.router.add_get("/control/replicas", self._report)
        app.router.add_put("/control/assignment", self._assign)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "0.0.0.0", CHANGELOG_PORT).start()
        room = {"cpu": "2k", "memory": "4Ti", "pods": "2k"}
        node = {"metadata": {"name": NODE, "labels": {NODE: ""}}, "spec": {}}
        await self._api.create(NODES, None, node)
        ready = {"type": "Ready", "status": "True", "reason": "Bench", "message": "a fake"}
        status = {"status": {"capacity": room, "allocatable": room, "conditions": [ready]}}
        await self._api.merge_patch(NODES, None, NODE, status, subresource="status")
        work = asyncio.gather(self._beat(), self._work())
        try:
            yield
        finally:
            work.cancel()
            with suppress(asyncio.CancelledError):
                await work
            await runner.cleanup()
            await self._api.delete(NODES, None, NODE)
            for name in self._volumes:
                await self._api.delete(_VOLUMES, None, name)

    async def _beat(self) -> None:
        """Renews the node's Lease, without which the node counts as dead."""
        while True:
            lease = {
                "apiVersion": LEASES.api_version,
                "kind": LEASES.kind,
                "metadata": {"name": NODE, "namespace": "kube-node-lease"},
                "spec": {
                    "holderIdentity": NODE,
                    "leaseDurationSeconds": 40,
                    "renewTime": micro_time_of(utc(self._clock)),
                },
            }
            await self._api.apply(LEASES, "kube-node-lease", lease)
            await asyncio.sleep(10)

    async def _work(self) -> None:
        while True:
            for claim in await self._api.list(PERSISTENT_VOLUME_CLAIMS, NAMESPACE):
                if claim["metadata"]["uid"] not in self._volumes:
                    await self._provide(claim)
            for pod in await self._api.list(PODS, NAMESPACE):
                if pod["spec"].get("nodeName") == NODE and "podIP" not in pod["status"]:
                    await self._run(pod)
            await asyncio.sleep(1)

    async def _provide(self, claim: Object) -> None:
        metadata = claim["metadata"]
        name = metadata["uid"]
        volume = {
            "metadata": {"name": name},
            "spec": {
                "capacity": claim["spec"]["resources"]["requests"],
                "accessModes": claim["spec"]["accessModes"],
                "storageClassName": claim["spec"].get("storageClassName"),
                "hostPath": {"path": f"/nowhere/{name}"},
                "claimRef": {
                    "kind": PERSISTENT_VOLUME_CLAIMS.kind,
                    "namespace": NAMESPACE,
                    "name": metadata["name"],
                    "uid": name,
                },
            },
        }
        await self._api.create(_VOLUMES, None, volume)
        self._volumes.add(name)

    async def _run(self, pod: Object) -> None:
        metadata = pod["metadata"]
        number = len(self._pods)
        ip = f"127.7.{number // 250}.{number % 250 + 1}"
        store, ordinal = metadata["labels"][STORE_LABEL], int(metadata["labels"][ORDINAL_LABEL])
        data = self._directory / metadata["uid"]
        data.mkdir()
        self._pods[ip] = FakePod(StoreName(store), Ordinal(ordinal), data, metadata["uid"])
        now = time_of(utc(self._clock))
        running = {
            "name": pod["spec"]["containers"][0]["name"],
            "image": "none",
            "imageID": "",
            "ready": True,
            "restartCount": 0,
            "started": True,
            "state": {"running": {"startedAt": now}},
        }
        status = {
            "phase": "Running",
            "podIP": ip,
            "podIPs": [{"ip": ip}],
            "startTime": now,
            "conditions": _READY,
            "containerStatuses": [running],
        }
        await self._api.merge_patch(
            PODS, NAMESPACE, metadata["name"], {"status": status}, subresource="status"
        )

    # --- The operator's requests to pods

    def _pod(self, request: web.Request) -> FakePod:
        assert request.transport is not None
        return self._pods[request.transport.get_extra_info("sockname")[0]]

    async def _report(self, request: web.Request) -> web.Response:
        return web.Response(body=encode(self._pod(request).report()))

    async def _assign(self, request: web.Request) -> web.Response:
        pod = self._pod(request)
        try:
            pod.assign(decode(await request.read(), StoreAssignment))
        except StoreError as error:
            return web.Response(body=encode(problem_of(error)), status=error.http_status)
        return web.Response(body=encode(pod.report()))


async def measure(api: KubernetesApi, kubeconfig: str, counts: list[int], standbys: int) -> None:
    """Prints a line for each number of stores."""
    ops_port = free_ports(1)[0]
    operator = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "qss_operator", "--kubeconfig", kubeconfig),
        *("--store-image", "none", "--lease-namespace", NAMESPACE),
        *("--ops-host", "127.0.0.1", "--ops-port", str(ops_port), "--log-level", "warning"),
    )
    clock = SystemClock()
    made = 0
    try:
        for count in counts:
            started_s = clock.monotonic_s()
            for number in range(made, count):
                await api.create(STORES, NAMESPACE, _store(f"store-{number:03d}", standbys))
            made = max(made, count)
            async with asyncio.timeout(READY_WITHIN_S):
                while not all(map(is_ready, await api.list(STORES, NAMESPACE))):
                    assert operator.returncode is None, "the operator ended"
                    await asyncio.sleep(1)
            ready_s = clock.monotonic_s() - started_s
            await asyncio.sleep(REST_S / 4)  # The last changes of pods are still being processed.
            sent = await _sent_in_a_rest(ops_port)
            memory_mb = _resident_mb(operator.pid)
            leases = sum(sent.pop(one) for one in list(sent) if one[0] == LEASES.plural)
            sys.stdout.write(
                f"{count} stores with {standbys} standbys: ready after {ready_s:.0f} s, "
                f"{memory_mb:.0f} MB, "
                f"{sum(sent.values()) * 60 / REST_S / count:.2f} requests a minute and store, "
                f"{leases * 60 / REST_S:.0f} a minute for the Lease; the former: {dict(sent)}\n"
            )
            sys.stdout.flush()
    finally:
        operator.terminate()
        await operator.wait()


async def _sent_in_a_rest(port: int) -> Counter[tuple[str, str]]:
    before = await asyncio.to_thread(_requests, port)
    await asyncio.sleep(REST_S)
    return await asyncio.to_thread(_requests, port) - before


def _store(name: str, standbys: int) -> Object:
    return small_store(
        name,
        replicas=PODS_A_STORE,
        partitions=PARTITIONS,
        standbys=standbys,
        access={"authentication": "None"},
        pod={"nodeSelector": {NODE: ""}},
    )


def _requests(port: int) -> Counter[tuple[str, str]]:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
        text = answer.read().decode()
    found: Counter[tuple[str, str]] = Counter()
    for resource, verb, value in _COUNTED.findall(text):
        found[resource, verb] += int(float(value))
    return found


def _resident_mb(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024


async def main() -> None:
    """Makes a namespace and a node, measures, and deletes them."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--standbys", type=int, default=1, help="of each partition")
    parser.add_argument("counts", type=int, nargs="*", default=COUNTS, metavar="COUNT")
    options = parser.parse_args()
    kubeconfig = os.environ["KUBECONFIG"]
    async with connect(kubeconfig) as api:
        await api.apply(CUSTOM_RESOURCE_DEFINITIONS, None, yaml.safe_load(CRD.read_text()))
        await api.create(_NAMESPACES, None, {"metadata": {"name": NAMESPACE}})
        try:
            with tempfile.TemporaryDirectory(prefix="qss-bench-") as directory:
                async with Kubelet(api, Path(directory)).running():
                    await measure(api, kubeconfig, options.counts, options.standbys)
        finally:
            await _clean(api)


async def _clean(api: KubernetesApi) -> None:
    """Removes finalizers and pods, since no other process does it now."""
    for store in await api.list(STORES, NAMESPACE):
        name = store["metadata"]["name"]
        await api.merge_patch(STORES, NAMESPACE, name, {"metadata": {"finalizers": []}})
        await api.delete(STORES, NAMESPACE, name)
    await api.delete(_NAMESPACES, None, NAMESPACE)
    while await api.find(_NAMESPACES, None, NAMESPACE):
        for pod in await api.list(PODS, NAMESPACE):
            await api.delete(PODS, NAMESPACE, pod["metadata"]["name"], grace_period_s=0)
        await asyncio.sleep(1)


if __name__ == "__main__":
    asyncio.run(main())
