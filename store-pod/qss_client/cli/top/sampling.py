"""Asks the pods of a store for their state at one time."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import count
from urllib.parse import quote

from qss_client.cli.top.metrics_text import PodMetrics
from qss_client.clock import Clock
from qss_client.http.sync_http import SyncHttp
from qss_client.kube.connection import ConnectionOptions
from qss_client.reads.routing.replica_choice import newer_of
from qss_core.errors import StoreError
from qss_core.wire.discovery import Lags
from qss_core.wire.messages import Instance, StoreMetadata

ANSWER_S = 2.0
_PODS_AT_ONCE = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSample:
    """One pod; a part is None where the pod does not tell it, and `failure` says why."""

    name: str
    lags: Lags | None = None
    metrics: PodMetrics | None = None
    failure: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreSample:
    """One store; at_s: a monotonic time."""

    at_s: float
    metadata: StoreMetadata
    pods: tuple[PodSample, ...]


class Sampler:
    """Asks for samples of one store."""

    def __init__(
        self,
        http: SyncHttp,
        connection: ConnectionOptions,
        metrics_urls: Sequence[str],
        clock: Clock,
    ) -> None:
        """metrics_urls: the ops ports of the pods by their numbers; fewer: others tell none."""
        self._http = http
        self._connection = connection
        self._metrics_urls = metrics_urls
        self._clock = clock
        self._answering: tuple[str, ...] = ()  # The pod that told the routes last.

    def sample(self, known: StoreMetadata) -> StoreSample:
        """The store now; with the routes of `known` while no pod tells newer ones.

        Behind a forwarded port one pod tells its lags.
        """
        metadata = self._newer(known)
        ops = dict(enumerate(self._metrics_urls))

        def pod(place: int, instance: Instance) -> PodSample:
            url = instance.query
            if not self._connection.direct:
                url = "" if place else self._connection.urls[0]
            return self._pod(instance.pod, metadata.definition.name, url, ops.get(instance.ordinal))

        # At the same time: silent pods would add up to a wait that nobody explains.
        with ThreadPoolExecutor(_PODS_AT_ONCE) as threads:
            pods = tuple(threads.map(pod, count(), metadata.instances))
        return StoreSample(at_s=self._clock.monotonic_s(), metadata=metadata, pods=pods)

    def _newer(self, known: StoreMetadata) -> StoreMetadata:
        """The routes that the first pod tells that answers."""
        path = f"/state/instances/{quote(known.definition.name, safe='')}"
        urls = [one.query for one in known.instances] if self._connection.direct else []
        for url in dict.fromkeys([*self._answering, *urls, *self._connection.urls]):
            try:
                found = self._http.get(url + path, StoreMetadata, ANSWER_S)
            except StoreError:
                continue
            self._answering = (url,)
            return newer_of(known, found)
        return known

    def _pod(self, name: str, store: str, url: str, ops: str | None) -> PodSample:
        if not url:
            return PodSample(name=name, failure="it is not reached from here")
        lags, metrics, failure = None, None, None
        try:
            lags = self._http.get(f"{url}/state/lags/{quote(store, safe='')}", Lags, ANSWER_S)
            name = lags.pod
            if ops is not None:
                answer = self._http.request("GET", f"{ops}/metrics", timeout_s=ANSWER_S)
                metrics = PodMetrics(answer.body.decode(errors="replace"))
        except StoreError as error:
            failure = str(error)
        return PodSample(name=name, lags=lags, metrics=metrics, failure=failure)
