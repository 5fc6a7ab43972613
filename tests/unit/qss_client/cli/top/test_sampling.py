"""`qss top` waits for all silent pods of a store at the same time."""

import threading
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from qss_client.cli.top.sampling import Sampler
from qss_client.clock import SystemClock
from qss_client.http.sync_http import SyncHttp
from qss_client.kube.connection import ConnectionOptions, CredentialOptions
from qss_core.errors import UnreachableError
from qss_core.model import Sequence, StoreId
from qss_core.wire.discovery import LoggedBatch, StoreBatches
from qss_core.wire.messages import metadata_of
from qss_testing.pods.pod_process import PodCluster

PODS = 3


class SilentPods(SyncHttp):
    """The last pod tells the routes; no pod tells its lags before all are asked for them."""

    def __init__(self, cluster: PodCluster) -> None:
        super().__init__()
        self.known = metadata_of(cluster.assignment)
        self.asked: list[str] = []
        self._all = threading.Barrier(PODS)

    def get(self, url: str, kind: Any, *_: Any, **__: Any) -> Any:
        if "/state/instances/" in url:
            self.asked.append(url)
            if url.startswith(self.known.instances[-1].query):
                return self.known
        else:
            self._all.wait(timeout=30)
        raise UnreachableError("it does not answer")


def test_silent_pods_are_waited_for_at_the_same_time(tmp_path: Path) -> None:
    cluster = PodCluster(tmp_path, pods=PODS, partitions=1)  # No process runs.
    pods = SilentPods(cluster)
    urls = tuple(one.query for one in pods.known.instances)
    connection = ConnectionOptions(urls=urls, store="words", shown=CredentialOptions())
    sampler = Sampler(pods, connection, (), SystemClock())
    found = sampler.sample(pods.known)
    assert [one.failure is not None for one in found.pods] == [True] * PODS
    assert len(pods.asked) == PODS
    sampler.sample(pods.known)
    assert len(pods.asked) == PODS + 1, "the pod that answered is asked first"


class OneCoordinator(SyncHttp):
    """A pod that tells its routes and its batches."""

    def __init__(self, cluster: PodCluster) -> None:
        super().__init__()
        self.known = metadata_of(cluster.assignment)
        self.batches: list[LoggedBatch] = []

    def wrote(self, sequence: int) -> None:
        self.batches.append(
            LoggedBatch(
                sequence=Sequence(sequence), writer="job", batch=0, rows=1, committed_at_ms=0
            )
        )

    def get(self, url: str, kind: Any, *_: Any, **__: Any) -> Any:
        path, *_mark, after = url.partition("?after=")
        if "/state/instances/" in path:
            return self.known
        if "/state/batches/" in path:
            told = tuple(one for one in self.batches if one.sequence > int(after))
            return StoreBatches(writers=(), batches=(), earlier=told)
        raise UnreachableError("it does not answer")


def test_the_batches_of_a_store_that_was_made_again_are_counted_from_its_first(
    tmp_path: Path,
) -> None:
    pod = OneCoordinator(PodCluster(tmp_path, pods=1, partitions=1))  # No process runs.
    url = pod.known.instances[0].query
    connection = ConnectionOptions(
        urls=(url,), store="words", shown=CredentialOptions(), direct=False
    )
    sampler = Sampler(pod, connection, (), SystemClock())
    known = pod.known

    def sequences() -> list[int]:
        found = sampler.sample(known).batches
        assert found is not None
        return [one.sequence for one in found.batches]

    pod.wrote(500)
    assert sequences() == [500]
    assert sequences() == []
    again = replace(pod.known.definition, store_id=StoreId("made-again"))
    pod.known, pod.batches = replace(pod.known, definition=again), []
    pod.wrote(1)
    assert sequences() == [1]
    assert sequences() == []
