"""What a pod tells Prometheus. Names and labels hold no key and no value of a store."""

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from qss_store.request_metrics import RequestMetrics


class Metrics:
    """The pod's metrics, in a registry of their own so that two pods of one process do not meet."""

    def __init__(self) -> None:
        """All counters at zero."""
        self.registry = CollectorRegistry()
        self.requests = RequestMetrics()
        self.registry.register(self.requests)
        self.open_iterators = Gauge("qss_open_iterators", "Open scans.", registry=self.registry)
        self.staged_bytes = self._gauge("qss_staged_bytes", "Staged rows on disk, in no commit.")
        self.uncommitted_bytes = self._gauge(
            "qss_uncommitted_bytes", "Memory held for chunks that are being staged."
        )
        self.applied_offset = Gauge(
            "qss_applied_offset",
            "The next changelog offset to apply.",
            ["partition"],
            registry=self.registry,
        )
        self._commits = Counter("qss_commits", "Batches applied.", registry=self.registry)
        self._records = Counter("qss_committed_records", "Rows applied.", registry=self.registry)
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

    def _gauge(self, name: str, text: str) -> Gauge:
        return Gauge(name, text, registry=self.registry)

    def committed(self, seconds: float, records: int) -> None:
        """A batch was applied in one partition."""
        self._commits.inc()
        self._records.inc(records)
        self._count += 1
        self._sum_s += seconds
        self._longest_s = max(self._longest_s, seconds)
        self._commit_average.set(self._sum_s / self._count)
        self._commit_maximum.set(self._longest_s)

    def stalled(self, seconds: float) -> None:
        """The event loop turned that much too late."""
        self.loop_stall.observe(seconds)
        self._longest_stall_s = max(self._longest_stall_s, seconds)

    def render(self, refresh: Callable[[], None]) -> bytes:
        """The text of all metrics, after `refresh` has set those that are only looked at."""
        refresh()
        self.loop_stall_maximum.set(self._longest_stall_s)
        self._longest_stall_s = 0.0
        return generate_latest(self.registry)
