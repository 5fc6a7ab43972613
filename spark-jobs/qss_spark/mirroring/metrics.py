"""The metrics of a running mirror, for Prometheus: one HTTP port of this process."""

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, start_http_server

from qss_core.errors import MalformedRequestError
from qss_spark.mirroring.copies.state_copy import Written

_PREFIX = "qss_mirror"
_LABELS = ("store",)


class MirrorMetrics:
    """The work of the copies of one checkpoint, by store."""

    def __init__(self) -> None:
        """Begins at zero; `serve` shows it."""
        registry = self._registry = CollectorRegistry()
        self._batch = Gauge(
            f"{_PREFIX}_batch", "Last batch that the store has.", _LABELS, registry=registry
        )
        self._behind = Gauge(
            f"{_PREFIX}_batches_behind", "Committed batches that a store lacks.", registry=registry
        )
        self._late = Gauge(
            f"{_PREFIX}_behind_seconds",
            "Time since the query committed the first batch that a store lacks.",
            registry=registry,
        )
        self._rows = Counter(
            f"{_PREFIX}_rows", "Rows written and deleted.", _LABELS, registry=registry
        )
        self._batches = Counter(
            f"{_PREFIX}_batches", "Batches written.", _LABELS, registry=registry
        )
        self._resyncs = Counter(
            f"{_PREFIX}_resyncs", "Whole states written.", _LABELS, registry=registry
        )
        self._read = Gauge(
            f"{_PREFIX}_read_bytes", "Bytes of changes that were read.", registry=registry
        )

    def serve(self, port: int) -> int:
        """Serves `/metrics` on all addresses; returns the port. Raises MalformedRequestError."""
        try:
            server, _ = start_http_server(port, registry=self._registry)
        except OSError as error:
            raise MalformedRequestError(f"--metrics-port {port}: {error.strerror}") from error
        return int(server.server_port)

    def wrote(self, store: str, written: Written) -> None:
        """Counts a batch that a store has now."""
        self._batch.labels(store).set(written.batch)
        self._rows.labels(store).inc(written.rows)
        self._batches.labels(store).inc()
        self._resyncs.labels(store).inc(written.is_whole)
        self._read.inc(written.read_bytes)

    def watch(self, look: Callable[[], tuple[float, float]]) -> None:
        """Takes the function that measures the lag in batches and seconds; each scrape calls it.

        So the lag is true while nothing is copied, too: pods do not answer, or the copy has ended.
        """
        self._behind.set_function(lambda: look()[0])
        self._late.set_function(lambda: look()[1])
