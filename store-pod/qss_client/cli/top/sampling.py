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
from qss_core.errors import PathNotFoundError, StoreError
from qss_core.model import PodName, StoreId
from qss_core.wire.discovery import (
    Lags,
    LoggedBatch,
    PodStatus,
    ReadsServed,
    StoreBatches,
    StoreStatus,
)
from qss_core.wire.messages import Instance, StoreMetadata

ANSWER_S = 2.0
_PODS_AT_ONCE = 16
_STATUS_S = 2 * ANSWER_S  # The pod that is asked waits for the other pods.


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSample:
    """One pod; a part is None where the pod does not tell it, and `failure` says why."""

    name: str
    lags: Lags | None = None
    metrics: PodMetrics | None = None
    reads: ReadsServed | None = None  # Of the pod's status, as far as its version tells them.
    free_bytes: int | None = None
    failure: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchesSample:
    """The batches with sequences beyond `after`, which ended the sample before; 0: the first."""

    after: int
    batches: tuple[LoggedBatch, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreSample:
    """One store; at_s: a monotonic time. `batches` is None where no pod tells them."""

    at_s: float
    metadata: StoreMetadata
    pods: tuple[PodSample, ...]
    batches: BatchesSample | None = None


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
        self._after = 0  # The last sequence of the store `_counted`, which may be made again.
        self._counted: StoreId | None = None
        self._answering: tuple[str, ...] = ()  # The pod that told the routes last.

    def sample(self, known: StoreMetadata) -> StoreSample:
        """The store now; with the routes of `known` while no pod tells newer ones.

        Behind a forwarded port one pod tells the lags of all pods. Batches are asked for where no
        metrics are, which have the rows, too.
        """
        metadata = self._newer(known)
        pods = None if self._connection.direct else self._all_by_one(metadata)
        if pods is None:
            pods = self._each(metadata)
        batches = None if self._metrics_urls else self._batches(metadata, pods)
        at_s = self._clock.monotonic_s()
        return StoreSample(at_s=at_s, metadata=metadata, pods=pods, batches=batches)

    def _newer(self, known: StoreMetadata) -> StoreMetadata:
        """The routes of the first pod that answers."""
        path = _path("instances", known)
        urls = [one.query for one in known.instances] if self._connection.direct else []
        for url in dict.fromkeys([*self._answering, *urls, *self._connection.urls]):
            try:
                found = self._http.get(url + path, StoreMetadata, ANSWER_S)
            except StoreError:
                continue
            self._answering = (url,)
            return newer_of(known, found)
        return known

    def _all_by_one(self, metadata: StoreMetadata) -> tuple[PodSample, ...] | None:
        """The status of all pods, by one pod; None if its version reports itself alone."""
        told: StoreStatus
        try:
            path = _path("status", metadata)
            told = self._http.get(self._connection.urls[0] + path, StoreStatus, _STATUS_S)
        except PathNotFoundError:
            return None
        except StoreError as error:
            return tuple(PodSample(name=one.pod, failure=str(error)) for one in metadata.instances)
        return tuple(self._told(one, told) for one in metadata.instances)

    def _told(self, instance: Instance, told: StoreStatus) -> PodSample:
        status = told.pods.get(instance.pod)
        if status is None:
            reason = told.silent.get(instance.pod, "the pod that was asked does not know it")
            return PodSample(name=instance.pod, failure=f"no answer: {reason}")
        metrics, failure = None, None
        try:
            metrics = self._metrics(instance)
        except StoreError as error:
            failure = str(error)
        return PodSample(
            name=instance.pod,
            lags=_lags_of(instance.pod, status),
            metrics=metrics,
            reads=status.reads,
            free_bytes=None if status.volume is None else status.volume.room_bytes,
            failure=failure,
        )

    def _each(self, metadata: StoreMetadata) -> tuple[PodSample, ...]:
        """Each pod by its own address; behind a forwarded port one pod."""

        def asked(number: int, instance: Instance) -> PodSample:
            url = instance.query
            if not self._connection.direct:
                url = "" if number else self._connection.urls[0]
            return self._pod(instance, url, metadata)

        # At the same time: silent pods would add up to a wait that nobody explains.
        with ThreadPoolExecutor(_PODS_AT_ONCE) as threads:
            return tuple(threads.map(asked, count(), metadata.instances))

    def _pod(self, instance: Instance, url: str, metadata: StoreMetadata) -> PodSample:
        if not url:
            return PodSample(name=instance.pod, failure="it is not reached from here")
        name: str = instance.pod
        lags, metrics, failure = None, None, None
        try:
            lags = self._http.get(url + _path("lags", metadata), Lags, ANSWER_S)
            name = lags.pod
            metrics = self._metrics(instance)
        except StoreError as error:
            failure = str(error)
        return PodSample(name=name, lags=lags, metrics=metrics, failure=failure)

    def _metrics(self, instance: Instance) -> PodMetrics | None:
        """The metrics of a pod; None where their address is not known. Raises StoreError."""
        url = dict(enumerate(self._metrics_urls)).get(instance.ordinal)
        if url is None:
            return None
        answer = self._http.request("GET", f"{url}/metrics", timeout_s=ANSWER_S)
        return PodMetrics(answer.body.decode(errors="replace"))

    def _batches(self, metadata: StoreMetadata, pods: Sequence[PodSample]) -> BatchesSample | None:
        """The batches since the sample before, from the first pod that answered."""
        there = zip(metadata.instances, pods, strict=True)
        urls = [one.query for one, pod in there if pod.lags is not None][:1]
        if not self._connection.direct:
            urls = [self._connection.urls[0]]
        if self._counted != metadata.definition.store_id:
            self._counted, self._after = metadata.definition.store_id, 0
        after = self._after
        for url in urls:
            path = f"{_path('batches', metadata)}?after={after}"
            try:
                told = self._http.get(url + path, StoreBatches, _STATUS_S)
            except StoreError:
                return None  # A pod of before has no such path; the coordinator may be away.
            # After a failover the log of the new coordinator has batches that it has not seen.
            found = tuple(sorted((*told.earlier, *told.batches), key=lambda one: one.sequence))
            self._after = found[-1].sequence if found else after
            return BatchesSample(after=after, batches=found)
        return None


def _path(what: str, metadata: StoreMetadata) -> str:
    return f"/state/{what}/{quote(metadata.definition.name, safe='')}"


def _lags_of(pod: PodName, status: PodStatus) -> Lags:
    return Lags(pod=pod, ordinal=status.ordinal, partitions={**status.replicas})
