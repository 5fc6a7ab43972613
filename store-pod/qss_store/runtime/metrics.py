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
        self.open_iterators = self._gauge("qss_open_iterators", "Scans that are open now.")
        self.staged_bytes = self._gauge("qss_staged_bytes", "Staged bytes that no commit has.")
        self.uncommitted_bytes = self._gauge(
            "qss_uncommitted_bytes", "Memory held for chunks that are being staged."
        )
        self._add_gauges_that_a_scrape_sets()
        self.applied_offset = self._gauge(
            "qss_applied_offset", "The next changelog offset to apply.", "partition"
        )
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
