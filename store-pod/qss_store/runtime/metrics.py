"""The pod's metrics for Prometheus. Names and labels contain no keys and values of a store."""

from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import accumulate

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

_BUCKETS_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0)
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
        yield CounterMetricFamily("qss_received_bytes", "Bytes of bodies.", value=self.bytes_in)
        yield CounterMetricFamily("qss_sent_bytes", "Bytes of answers.", value=self.bytes_out)


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
            "Requests admitted without a review; stale: the API server does not answer.",
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
        yield GaugeMetricFamily("qss_access_tokens", "Tokens that are known.", value=self.tokens)


class Metrics:
    """The pod's metrics, in their own registry, so that a process may have several pods."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = RequestMetrics()
        self.registry.register(self.requests)
        self.access = AccessMetrics()
        self.registry.register(self.access)
        self.certificate_loads = self._counter(
            "qss_certificate_loads", "Changed certificate files, loaded or refused.", "result"
        )
        self.open_iterators = self._gauge("qss_open_iterators", "Open scans.")
        self.staged_bytes = self._gauge("qss_staged_bytes", "Staged rows on disk, in no commit.")
        self.uncommitted_bytes = self._gauge(
            "qss_uncommitted_bytes", "Memory held for chunks that are being staged."
        )
        self._add_what_only_a_look_shows()
        self.applied_offset = self._gauge(
            "qss_applied_offset", "The next changelog offset to apply.", "partition"
        )
        self._commits = self._counter("qss_commits", "Batches applied.")
        self._records = self._counter("qss_committed_records", "Rows applied.")
        self._expired = self._counter(
            "qss_expired_records",
            "Rows of applied batches that were dropped: their segment is expired.",
        )
        self.migrated_records = self._counter(
            "qss_migrated_records", "Rows that were moved from another format into the store's."
        )
        self.migration_records_left = self._gauge(
            "qss_migration_records_left",
            "About how many rows still have another format than the store's.",
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
            "How late the event loop turned.",
            registry=self.registry,
            buckets=(0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1.0),
        )
        self.loop_stall_maximum = self._gauge(
            "qss_loop_stall_maximum_seconds", "The longest stall since the last scrape."
        )
        self._count = 0
        self._sum_s = 0.0
        self._longest_s = 0.0
        self._longest_stall_s = 0.0

    def _add_what_only_a_look_shows(self) -> None:
        self.volume_bytes = self._gauge("qss_volume_bytes", "The size of the pod's volume.")
        self.volume_free_bytes = self._gauge(
            "qss_volume_free_bytes", "How much of the pod's volume is free."
        )
        self.writer_silent = self._gauge(
            "qss_writer_silent_seconds",
            "The longest silence of a writer whose run is open, of the pod with partition 0; a run "
            "says each minute that it lives. Jobs that write once do not count.",
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
