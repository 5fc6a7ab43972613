"""A writer of real pods that uses the client, and reads the results."""

import json
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import msgspec

from qss_client.chunks.chunk import encode_slice
from qss_client.http.retries import RetryLimits
from qss_client.http.sync_http import SyncHttp
from qss_client.writes.batch import Run, Staged, commit, open_writer, stage, write_batch
from qss_core.partitioning import partition_of
from qss_core.wire.messages import CommitAnswer
from qss_testing.faults.gates import Gate
from qss_testing.pods.pod_process import PodCluster, PodProcess
from qss_testing.pods.write_cluster import table_of
from qss_testing.waiting import wait_until

PATIENT = RetryLimits(deadline_s=60.0, longest_wait_s=0.2)
IMPATIENT = RetryLimits(deadline_s=0.0)


def put_gates(cluster: PodCluster, gates: list[Gate]) -> None:
    """Lets writers and peers reach each pod through its gate."""
    pods = tuple(
        msgspec.structs.replace(pod, changelog=gate.url)
        for pod, gate in zip(cluster.assignment.pods, gates, strict=True)
    )
    cluster.assignment = msgspec.structs.replace(cluster.assignment, pods=pods)


def key_in(partition: int, partitions: int, prefix: str) -> str:
    """A key with that prefix in a partition."""
    keys = (f"{prefix}-{number}" for number in range(10_000))
    return next(key for key in keys if partition_of(key.encode(), partitions) == partition)


class ProcessWriter:
    """One writer; by default its batches have one row in every partition."""

    def __init__(self, cluster: PodCluster, name: str) -> None:
        self.name = name
        self.http = SyncHttp()
        self.run: Run | None = None
        self._cluster = cluster
        self._runs = 0
        self._background = ThreadPoolExecutor(1)

    def close(self) -> None:
        """Closes its connections and its thread."""
        self._background.shutdown()
        self.http.close()

    @property
    def partitions(self) -> int:
        return self._cluster.assignment.definition.partitions

    def in_background(self, work: Callable[[], Any]) -> "Future[Any]":
        """Runs work in a thread, while the test continues."""
        return self._background.submit(work)

    def open(self, limits: RetryLimits = PATIENT) -> Run:
        """Opens a new run of the query."""
        self._runs += 1
        self.run = open_writer(
            self.http,
            self._cluster.metadata,
            self.name,
            query_id=f"query-{self.name}",
            run_id=f"{self.name}-run-{self._runs}",
            limits=limits,
        )
        return self.run

    def rows_of(self, value: str) -> dict[int, dict[bytes, bytes]]:
        """A row for every partition."""
        return {
            p: {key_in(p, self.partitions, self.name).encode(): json.dumps(value).encode()}
            for p in range(self.partitions)
        }

    def stage(
        self,
        batch: int,
        rows: Mapping[int, Mapping[bytes, bytes | None]],
        limits: RetryLimits = PATIENT,
    ) -> list[Staged]:
        assert self.run is not None
        slices = [encode_slice(p, table_of(of_it)) for p, of_it in rows.items()]
        return stage(self.http, self.run, batch, f"t{batch}", slices, limits)

    def commit(
        self, batch: int, staged: list[Staged], limits: RetryLimits = PATIENT
    ) -> CommitAnswer:
        assert self.run is not None
        return commit(
            self.http,
            self.run,
            batch,
            staged,
            position={f"input-{self.name}": {"0": batch}},
            fingerprint=f"{self.name}-{batch}",
            limits=limits,
        )

    def write(
        self,
        batch: int,
        rows: Mapping[int, Mapping[bytes, bytes | None]],
        limits: RetryLimits = PATIENT,
    ) -> CommitAnswer:
        """Commits rows by partition in one request."""
        assert self.run is not None
        return write_batch(
            self.http,
            self.run,
            batch,
            [encode_slice(p, table_of(of_it)) for p, of_it in rows.items()],
            position={f"input-{self.name}": {"0": batch}},
            fingerprint=f"{self.name}-{batch}",
            limits=limits,
        )

    def values(self, pod: PodProcess, **parameters: str) -> dict[str, Any]:
        """The values of this writer's keys, as one pod answers for the whole store.

        It repeats the query until every partition answers: a restarted pod may not listen yet, or
        be too slow.
        """
        given = {"limit": "10000", **parameters}
        query = "".join(f"&{name}={value}" for name, value in given.items())
        url = f"{pod.query}/state/stores/{self._cluster.store}?prefix={self.name}-{query}"

        elsewhere = {"NOT_PRESENT"} if parameters.get("scope") == "local" else set()

        def answer() -> dict[str, Any] | None:
            found: dict[str, Any] = json.loads(self.http.request("GET", url).body)
            failures = [one["failure"] for one in found["partitions"].values() if "failure" in one]
            return None if {one["reason"] for one in failures} - elsewhere else found

        return {row["key"]: row["value"] for row in wait_until(answer)["rows"]}


def sequences(cluster: PodCluster) -> list[int]:
    """The sequence of every partition, from the running pods."""
    reports = [pod.report() for pod in cluster.pods if pod.process is not None]
    found = {
        replica.configuration.partition: replica.sequence
        for report in reports
        if report is not None
        for replica in report.replicas
    }
    return [found[partition] for partition in sorted(found)]
