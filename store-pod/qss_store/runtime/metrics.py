"""The pod's metrics for Prometheus. Names and labels contain no keys and values of a store."""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import accumulate
from typing import NamedTuple

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from qss_core.model import Role
from qss_core.wire.discovery import ReadsServed, is_read

_BUCKETS_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0)
_TAKEOVER_BUCKETS_S = (0.1, 0.5, 1.0, 2.0, 5.0, 7.5, 10.0, 15.0, 30.0, 60.0)
_BOUNDS = (*map(str, _BUCKETS_S), "+Inf")


@dataclass(slots=True)
class _Route:
    """The numbers of one route; `buckets` are not cumulative."""

    statuses: dict[int, int] = field(default_factory=dict)
    buckets: list[int] = field(default_factory=lambda: [0] * len(_BOUNDS))
    seconds: float = 0.0


class RequestMetrics(Collector):
    """All requests of a pod, as plain numbers: labels and locks would cost as much as a read.

    Only the event loop writes and reads them.
    """

    def __init__(self) -> None:
        self._routes: dict[tuple[str, str], _Route] = {}
        self.bytes_in = 0
        self.bytes_out = 0

    def seen(self, listener: str, route: str, status: int, seconds: float) -> None:
        """Counts an answered request; `route` is the template of its path."""
        numbers = self._routes.get((listener, route))
        if numbers is None:
            numbers = self._routes[listener, route] = _Route()
        numbers.statuses[status] = numbers.statuses.get(status, 0) + 1
        numbers.buckets[bisect_left(_BUCKETS_S, seconds)] += 1
        numbers.seconds += seconds

    def reads(self) -> ReadsServed:
        """The requests so far that read rows."""
        found = [numbers for route, numbers in self._routes.items() if is_read(*route)]
        columns = ([one.buckets[place] for one in found] for place in range(len(_BOUNDS)))
        *sums, count = accumulate(map(sum, columns))
        within = dict(zip(_BUCKETS_S, sums, strict=True))
        seconds = sum(one.seconds for one in found)
        return ReadsServed(count=count, seconds=seconds, within=within)

    def collect(self) -> Iterator[Metric]:
        requests = CounterMetricFamily(
            "qss_requests",
            "Requests by listener, route and status.",
            labels=("listener", "route", "status"),
        )
        latency = HistogramMetricFamily(
            "qss_request_seconds",
            "Seconds from the request's head to the end of its answer.",
            labels=("listener", "route"),
        )
        for (listener, route), numbers in self._routes.items():
            for status, count in numbers.statuses.items():
                requests.add_metric((listener, route, str(status)), count)
            counts = accumulate(numbers.buckets)
            buckets = [(bound, float(count)) for bound, count in zip(_BOUNDS, counts, strict=True)]
            latency.add_metric((listener, route), buckets, numbers.seconds)
        yield requests
        yield latency
        yield CounterMetricFamily(
            "qss_received_bytes", "Bytes of request bodies.", value=self.bytes_in
        )
        yield CounterMetricFamily("qss_sent_bytes", "Bytes of answers sent.", value=self.bytes_out)


class AccessMetrics(Collector):
    """Requests and reviews, as plain numbers like RequestMetrics, without accounts and tokens."""

    def __init__(self) -> None:
        self.tokens = 0
        self.fresh_hits = 0
        self._stale_hits = 0
        self._reviews: dict[tuple[str, str], int] = {}

    def hit(self, *, is_stale: bool) -> None:
        """Counts a request that was admitted without a review; stale: by an older verdict."""
        if is_stale:
            self._stale_hits += 1
        else:
            self.fresh_hits += 1

    def reviewed(self, review: str, result: str) -> None:
        """Counts a review of a token, or of the right to query or write."""
        self._reviews[review, result] = self._reviews.get((review, result), 0) + 1

    def collect(self) -> Iterator[Metric]:
        hits = CounterMetricFamily(
            "qss_access_cache_hits",
            "Requests admitted without a review; stale: by a kept verdict, while reviews fail.",
            labels=("state",),
        )
        hits.add_metric(("fresh",), self.fresh_hits)
        hits.add_metric(("stale",), self._stale_hits)
        reviews = CounterMetricFamily(
            "qss_access_reviews",
            "TokenReviews (token) and SubjectAccessReviews (query, write) by result.",
            labels=("review", "result"),
        )
        for labels, count in self._reviews.items():
            reviews.add_metric(labels, count)
        yield hits
        yield reviews
        yield GaugeMetricFamily(
            "qss_access_tokens", "Tokens whose account is known.", value=self.tokens
        )


class Carried(StrEnum):
    """The kinds of bytes that pods of one store send each other for their replicas."""

    CHANGELOG = "changelog"
    SNAPSHOT = "snapshot"


class ReplicaNumbers(NamedTuple):
    """One replica at the time of a scrape."""

    partition: int
    role: Role
    lag_offsets: int
    lag_s: float
    lacked_offsets: int | None  # The entries of an active that one of its followers lacks.
    lease_left_s: float | None  # None for a replica that needs no lease.


class ReplicationMetrics(Collector):
    """The replicas of a pod and their traffic with other pods, as plain numbers.

    A scrape sets `replicas`; a replica that has left the pod has no metric any more.
    """

    def __init__(self) -> None:
        self.replicas: Sequence[ReplicaNumbers] = ()
        self._sent: dict[str, int] = dict.fromkeys(Carried, 0)
        self._received: dict[str, int] = dict.fromkeys(Carried, 0)
        self._copied = {"new": 0, "rebuilt": 0}
        self._takeovers = [0] * (len(_TAKEOVER_BUCKETS_S) + 1)
        self._takeover_s = 0.0

    def sent(self, kind: Carried, size: int) -> None:
        """Counts bytes to another pod: of an active's requests, or of the files of a snapshot."""
        self._sent[kind] += size

    def received(self, kind: Carried, size: int) -> None:
        """Counts bytes from another pod; of a snapshot only the written bytes."""
        self._received[kind] += size

    def copied(self, *, is_rebuilt: bool) -> None:
        """Counts a copy of an active's database that took the place of an own one."""
        self._copied["rebuilt" if is_rebuilt else "new"] += 1

    def took_over(self, silent_s: float) -> None:
        """Counts a standby that may act now; it heard from the active before so long ago."""
        self._takeovers[bisect_left(_TAKEOVER_BUCKETS_S, silent_s)] += 1
        self._takeover_s += silent_s

    def collect(self) -> Iterator[Metric]:
        yield from self._of_replicas()
        yield _counted_by_kind(
            "qss_replication_sent_bytes", "Bytes sent to other pods for replicas.", self._sent
        )
        yield _counted_by_kind(
            "qss_replication_received_bytes",
            "Bytes taken from other pods for replicas.",
            self._received,
        )
        yield _counted_by_kind(
            "qss_copied_replicas",
            "Replicas that were copied from their active; rebuilt: in the place of an own one.",
            self._copied,
        )
        takeovers = HistogramMetricFamily(
            "qss_takeover_seconds",
            "Seconds from the last word of the active before until this pod's replica may act.",
        )
        bounds = (*map(str, _TAKEOVER_BUCKETS_S), "+Inf")
        buckets = zip(bounds, map(float, accumulate(self._takeovers)), strict=True)
        takeovers.add_metric((), list(buckets), self._takeover_s)
        yield takeovers

    def _of_replicas(self) -> Iterator[Metric]:
        roles = GaugeMetricFamily("qss_replicas", "Replicas of the pod by role.", labels=("role",))
        for role in Role:
            roles.add_metric((role.value,), sum(one.role is role for one in self.replicas))
        lag_offsets = GaugeMetricFamily(
            "qss_replica_lag_offsets",
            "Entries that a standby or a learner has logged and not applied.",
            labels=("partition", "role"),
        )
        lag_s = GaugeMetricFamily(
            "qss_replica_lag_seconds",
            "Seconds since a standby or a learner was level with its active, or was opened.",
            labels=("partition", "role"),
        )
        lacked = GaugeMetricFamily(
            "qss_follower_lag_offsets",
            "Entries of an active that the last one of its followers does not have on its disk.",
            labels=("partition",),
        )
        lease = GaugeMetricFamily(
            "qss_lease_left_seconds",
            "Seconds that are left of an active's lease; 0: it answers nothing.",
            labels=("partition",),
        )
        for one in self.replicas:
            partition = str(one.partition)
            if one.role is not Role.ACTIVE:
                lag_offsets.add_metric((partition, one.role.value), one.lag_offsets)
                lag_s.add_metric((partition, one.role.value), one.lag_s)
            if one.lacked_offsets is not None:
                lacked.add_metric((partition,), one.lacked_offsets)
            if one.lease_left_s is not None:
                lease.add_metric((partition,), one.lease_left_s)
        yield from (roles, lag_offsets, lag_s, lacked, lease)


def _counted_by_kind(name: str, text: str, counts: Mapping[str, int]) -> Metric:
    family = CounterMetricFamily(name, text, labels=("kind",))
    for kind, count in counts.items():
        family.add_metric((kind,), count)
    return family


class Metrics:
    """The pod's metrics, in their own registry, so that a process may have several pods."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = RequestMetrics()
        self.registry.register(self.requests)
        self.access = AccessMetrics()
        self.registry.register(self.access)
        self.replication = ReplicationMetrics()
        self.registry.register(self.replication)
        self.certificate_loads = self._counter(
            "qss_certificate_loads", "Changed certificate files, loaded or refused.", "result"
        )
        self.open_iterators = self._gauge("qss_open_iterators", "Scans that are open now.")
        self.uncommitted_bytes = self._gauge(
            "qss_uncommitted_bytes", "Memory held for chunks that are being staged."
        )
        self._add_gauges_that_a_scrape_sets()
        self._commits = self._counter("qss_commits", "Batches applied.")
        self._records = self._counter("qss_committed_records", "Rows applied.")
        self._expired = self._counter(
            "qss_expired_records",
            "Rows of applied batches that were dropped, because retention had ended for them.",
        )
        self.migrated_records = self._counter(
            "qss_migrated_records", "Rows moved from an older format into the store's format."
        )
        self.migration_records_left = self._gauge(
            "qss_migration_records_left",
            "Estimate of the rows that do not have the store's format yet.",
            "partition",
        )
        self._commit_average = self._gauge(
            "qss_commit_latency_average_seconds", "Average time to apply a batch."
        )
        self._commit_maximum = self._gauge(
            "qss_commit_latency_maximum_seconds", "Longest time to apply a batch."
        )
        self.loop_stall = Histogram(
            "qss_loop_stall_seconds",
            "Seconds by which the event loop ran late.",
            registry=self.registry,
            buckets=(0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1.0),
        )
        self.loop_stall_maximum = self._gauge(
            "qss_loop_stall_maximum_seconds", "Longest delay of the loop since the last scrape."
        )
        self._count = 0
        self._sum_s = 0.0
        self._longest_s = 0.0
        self._longest_stall_s = 0.0

    def _add_gauges_that_a_scrape_sets(self) -> None:
        self.staged_bytes = self._gauge("qss_staged_bytes", "Staged bytes that no commit has.")
        self.applied_offset = self._gauge(
            "qss_applied_offset", "The next changelog offset to apply.", "partition"
        )
        self.volume_bytes = self._gauge("qss_volume_bytes", "Size of the pod's volume.")
        self.volume_free_bytes = self._gauge(
            "qss_volume_free_bytes", "Free bytes of the pod's volume."
        )
        self.writer_silent = self._gauge(
            "qss_writer_silent_seconds",
            "Longest silence of a writer whose run is open, shown by the pod with partition 0; an "
            "open run sends a sign of life each minute. Batch jobs do not count.",
        )

    def _gauge(self, name: str, text: str, *labels: str) -> Gauge:
        return Gauge(name, text, labels, registry=self.registry)

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(name, text, labels, registry=self.registry)

    def committed(self, seconds: float, records: int, expired: int) -> None:
        """Notes a batch applied in one partition; `expired` of its records were dropped."""
        self._commits.inc()
        self._records.inc(records - expired)
        self._expired.inc(expired)
        self._count += 1
        self._sum_s += seconds
        self._longest_s = max(self._longest_s, seconds)
        self._commit_average.set(self._sum_s / self._count)
        self._commit_maximum.set(self._longest_s)

    def stalled(self, seconds: float) -> None:
        """Notes a stall of the event loop."""
        self.loop_stall.observe(seconds)
        self._longest_stall_s = max(self._longest_stall_s, seconds)

    def render(self, refresh: Callable[[], None]) -> bytes:
        """The text of all metrics, after `refresh` has set the metrics that are only read here."""
        refresh()
        self.loop_stall_maximum.set(self._longest_stall_s)
        self._longest_stall_s = 0.0
        return generate_latest(self.registry)
