"""`qss top` waits for all silent pods of a store at the same time."""

import threading
from pathlib import Path
from typing import Any

from qss_client.cli.top.sampling import Sampler
from qss_client.clock import SystemClock
from qss_client.http.sync_http import SyncHttp
from qss_client.kube.connection import ConnectionOptions, CredentialOptions
from qss_core.errors import UnreachableError
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
