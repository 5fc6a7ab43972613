"""Real pods as processes: `python -m qss_store` on the loopback, with an assignment."""

import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self

from qss_client.http.sync_http import SyncHttp
from qss_core.errors import StoreError
from qss_core.model import (
    Epoch,
    Isolation,
    Ordinal,
    PartitionConfiguration,
    Partitioner,
    PartitionId,
    PodAddress,
    PodName,
    StoreAssignment,
    StoreDefinition,
    StoreId,
    StoreName,
    StoreSettings,
    StoreType,
)
from qss_core.wire.messages import StoreMetadata, decode, encode, metadata_of
from qss_core.wire.replica_reports import ReplicasReport
from qss_core.wire.versions import OWN_VERSION
from qss_testing.pods.pod_forge import ForkedPod, forge
from qss_testing.pods.ports import free_ports
from qss_testing.waiting import wait_until

START_TIMEOUT_S = 100.0


class PodProcess:
    """One pod. It keeps its ports and its volume across restarts."""

    def __init__(
        self,
        store: str,
        ordinal: int,
        volume: Path,
        environment: Mapping[str, str],
        command: tuple[str, ...] = (),
        arguments: tuple[str, ...] = (),
        operator: Mapping[str, Any] | None = None,
    ) -> None:
        self.ordinal = ordinal
        self.volume = volume
        self.ports = free_ports(3)
        scheme = "https" if "--tls-dir" in arguments else "http"
        self.query, self.internal = (f"{scheme}://127.0.0.1:{one}" for one in self.ports[:2])
        self.ops = f"http://127.0.0.1:{self.ports[2]}"
        self.process: subprocess.Popen[bytes] | ForkedPod | None = None
        self._store = store
        self.environment = {**os.environ, **environment}
        self.prefix = command
        self._arguments = arguments
        self._operator = operator or {}

    @property
    def address(self) -> PodAddress:
        return PodAddress(
            ordinal=Ordinal(self.ordinal),
            name=PodName(f"{self._store}-{self.ordinal}"),
            query=self.query,
            changelog=self.internal,
        )

    def start(self) -> None:
        """Starts the process and waits until its internal port answers."""
        self.launch()
        wait_until(self.report, START_TIMEOUT_S)

    def launch(self) -> None:
        self.volume.mkdir(parents=True, exist_ok=True)
        query, internal, ops = map(str, self.ports)
        arguments = [
            *("--store", self._store, "--ordinal", str(self.ordinal)),
            *("--data-dir", str(self.volume)),
            *("--query-port", query, "--internal-port", internal, "--ops-port", ops),
            *self._arguments,
        ]
        path = self.volume.parent / f"pod-{self.ordinal}.log"
        if not self.prefix:
            self.process = forge().start(arguments, self.environment, path)
            return
        with path.open("ab") as log:
            self.process = subprocess.Popen(
                [*self.prefix, sys.executable, "-m", "qss_store", *arguments],
                stdout=log,
                stderr=log,
                env=self.environment,
            )

    def as_operator(self) -> SyncHttp:
        """A connection pool with the operator's credentials."""
        return SyncHttp(**self._operator)

    def report(self) -> ReplicasReport | None:
        """The pod's report; None while it does not answer."""
        assert self.process is not None
        assert self.process.poll() is None, f"pod {self.ordinal} ended: {self.log()[-2000:]}"
        http = self.as_operator()
        try:
            url = f"{self.internal}/control/replicas"
            answer = http.request("GET", url, headers={**OWN_VERSION}, timeout_s=30.0)
            return decode(answer.body, ReplicasReport)
        except StoreError:
            return None
        finally:
            http.close()

    def put(self, what: str, message: object) -> ReplicasReport:
        """Sends a control message, as the operator does. Raises the pod's error."""
        http = self.as_operator()
        try:
            answer = http.request(
                "PUT",
                f"{self.internal}/control/{what}",
                body=encode(message),
                headers={"Content-Type": "application/json", **OWN_VERSION},
            )
            return decode(answer.body, ReplicasReport)
        finally:
            http.close()

    def log(self) -> str:
        """The output of the pod."""
        return (self.volume.parent / f"pod-{self.ordinal}.log").read_text(errors="replace")

    def kill(self) -> None:
        """Kills the process with SIGKILL."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def stop(self) -> int:
        """Ends the process with SIGTERM; returns its exit code."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(timeout=100)
        self.process = None
        return code


class PodCluster:
    """Some pods of one store, with partitions assigned round robin.

    `arguments` go to every pod; `operator` has the options of SyncHttp for controlling them.
    """

    def __init__(
        self,
        directory: Path,
        *,
        pods: int = 1,
        standbys: int = 0,
        partitions: int = 4,
        store: str = "words",
        settings: StoreSettings | None = None,
        environment: Mapping[str, str] | None = None,
        command: tuple[str, ...] = (),
        arguments: tuple[str, ...] = (),
        operator: Mapping[str, Any] | None = None,
        **definition: Any,
    ) -> None:
        self.store = store
        self.pods = [
            PodProcess(
                store,
                number,
                directory / f"pod-{number}",
                environment or {},
                command,
                arguments,
                operator,
            )
            for number in range(pods)
        ]
        members: dict[str, Any] = {
            "name": StoreName(store),
            "store_id": StoreId(str(uuid.uuid4())),  # No two stores have one id.
            "type": StoreType.KEY_VALUE,
            "format": "Timestamped",
            "key_serde": "string",
            "value_serde": "json",
            "partitioner": Partitioner.MURMUR2,
            "partitions": partitions,
            "isolation": Isolation.READ_COMMITTED,
            **definition,
        }
        self.assignment = StoreAssignment(
            definition=StoreDefinition(**members),
            settings=settings or StoreSettings(),
            pods=tuple(pod.address for pod in self.pods),
            partitions=tuple(
                PartitionConfiguration(
                    partition=PartitionId(number),
                    epoch=Epoch(1),
                    active=Ordinal(number % pods),
                    in_sync=held,
                    replicas=held,
                )
                for number in range(partitions)
                if (held := tuple(Ordinal((number + n) % pods) for n in range(1 + standbys)))
            ),
        )

    def __enter__(self) -> Self:
        try:
            with ThreadPoolExecutor(len(self.pods)) as pool:
                list(pool.map(PodProcess.start, self.pods))
            for pod in self.pods:
                self.assign(pod)
        except BaseException:
            self._kill()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._kill()

    def _kill(self) -> None:
        for pod in self.pods:
            pod.kill()

    def assign(self, pod: PodProcess) -> ReplicasReport:
        """Sends the assignment to a pod."""
        return pod.put("assignment", self.assignment)

    def tell_conditions(self, pod: PodProcess, *conditions: Mapping[str, str]) -> ReplicasReport:
        """Tells a pod the conditions of the resource, as members of JSON."""
        store_id = self.assignment.definition.store_id
        return pod.put("conditions", {"storeId": store_id, "conditions": conditions})

    def is_level(self) -> bool:
        """Whether all replicas are open and have applied the same entries, up to the last one."""
        held = [
            (replica.configuration.partition, replica.applied_offset, replica.end_offset)
            for report in map(PodProcess.report, self.pods)
            if report is not None
            for replica in report.replicas
        ]
        asked = sum(len(entry.replicas) for entry in self.assignment.partitions)
        return (
            len(held) == asked
            and len({*held}) == len(self.assignment.partitions)
            and all(applied == end for _, applied, end in held)
        )

    @property
    def metadata(self) -> StoreMetadata:
        """The discovery document that every pod returns."""
        return metadata_of(self.assignment)

    @property
    def url(self) -> str:
        return self.pods[0].query
