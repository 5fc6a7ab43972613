"""The operator's metrics for Prometheus. Labels hold no key and no value of a store.

The metrics of one store have its name as a label, and go when the store is gone.
"""

from collections.abc import Callable, Mapping, Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

_RESULTS = ("begun", "done", "cancelled")
_ROUND_BUCKETS_S = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_REQUEST_BUCKETS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_QUEUE_BUCKETS_S = (0.001, 0.01, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0)


class OperatorMetrics:
    """The operator's metrics, in a registry of their own unless one is given."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.registry = registry or CollectorRegistry()
        self._reconciles = self._counter(
            "reconciles", "Rounds by result: settled, unsettled, gone, failed.", "result"
        )
        self._reconcile_seconds = self._histogram(
            "reconcile_seconds", "Seconds that a round took.", _ROUND_BUCKETS_S
        )
        self._queue_seconds = self._histogram(
            "queue_seconds",
            "Seconds from the wake of a store to the start of its round.",
            _QUEUE_BUCKETS_S,
        )
        self._errors = self._counter("errors", "Failed rounds and steps by error code.", "code")
        self._requests = self._counter(
            "api_requests", "Each try of a request to the API server.", "verb", "resource", "code"
        )
        self._request_seconds = self._histogram(
            "api_request_seconds",
            "Seconds that a request to the API server took.",
            _REQUEST_BUCKETS_S,
            "verb",
        )
        self._watch_age = self._gauge(
            "watch_age_seconds",
            "Seconds since a watch last reported a change; long in a quiet cluster.",
            "kind",
        )
        self._lease_held = self._gauge("lease_held", "1 while the operator holds the Lease.")
        self._stores = self._gauge("stores", "Stores that this operator looks after.")
        self._store_ready = self._gauge(
            "store_ready",
            "1 if all partitions of the store are served, else 0; absent while the store "
            "hibernates.",
            "namespace",
            "store",
        )
        self._store_degraded = self._gauge(
            "store_degraded",
            "1 if the store's condition Degraded is True, with the reason; else absent.",
            "namespace",
            "store",
            "reason",
        )
        self._degraded: dict[tuple[str, str], str] = {}
        self._add_metrics_of_replicas()
        self._loop_lag = self._gauge(
            "loop_lag_seconds",
            "Longest delay of the event loop since the last scrape.",
        )

    def _add_metrics_of_replicas(self) -> None:
        store = ("namespace", "store")
        self._under_replicated = self._gauge(
            "store_under_replicated_partitions",
            "Partitions with fewer sound replicas in sync than the spec asks for.",
            *store,
        )
        self._without_in_sync = self._gauge(
            "store_partitions_without_in_sync_replica",
            "Partitions of whose in-sync replicas none is reported to open or to serve.",
            *store,
        )
        self._moves_now = self._gauge(
            "store_moves", "Replicas that move now (running) and later (waiting).", *store, "state"
        )
        self._failovers = self._counter(
            "failovers", "Partitions whose active was replaced because it did not act.", *store
        )
        self._handovers = self._counter(
            "handovers", "Partitions whose active was handed over to a standby.", *store
        )
        self._moves = self._counter(
            "moves",
            "Replicas for another pod: begun; done: in sync; cancelled: removed before.",
            *store,
            "result",
        )

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(f"qss_operator_{name}", text, labels, registry=self.registry)

    def _histogram(self, name: str, text: str, buckets: Sequence[float], *labels: str) -> Histogram:
        return Histogram(
            f"qss_operator_{name}", text, labels, registry=self.registry, buckets=buckets
        )

    def _gauge(self, name: str, text: str, *labels: str) -> Gauge:
        return Gauge(f"qss_operator_{name}", text, labels, registry=self.registry)

    def reconciled(self, result: str, seconds: float) -> None:
        self._reconciles.labels(result).inc()
        self._reconcile_seconds.observe(seconds)

    def started(self, waited_s: float) -> None:
        """A round began `waited_s` after its store was woken."""
        self._queue_seconds.observe(waited_s)

    def failed(self, code: str) -> None:
        """A StoreError with this code, or `INTERNAL` for a bug."""
        self._errors.labels(code).inc()

    def requested(self, verb: str, resource: str, code: str, seconds: float) -> None:
        """Counts one try of a request to the API server, with its time."""
        self._requests.labels(verb, resource, code).inc()
        self._request_seconds.labels(verb).observe(seconds)

    def has_stores(self, count: int) -> None:
        """Sets the number of stores."""
        self._stores.set(count)

    def degraded(self, namespace: str, store: str, reason: str | None) -> None:
        """Sets the reason of the store's condition Degraded; None: it is not True."""
        before = self._degraded.pop((namespace, store), None)
        if before is not None and before != reason:
            self._store_degraded.remove(namespace, store, before)
        if reason is not None:
            self._degraded[namespace, store] = reason
            self._store_degraded.labels(namespace, store, reason).set(1)

    def saw(self, namespace: str, store: str, *, is_ready: bool | None) -> None:
        """Sets whether a store is ready; None removes the store's metric."""
        if is_ready is None:
            self._store_ready.remove(namespace, store)
        else:
            self._store_ready.labels(namespace, store).set(1 if is_ready else 0)

    def changed(
        self,
        namespace: str,
        store: str,
        *,
        failovers: int = 0,
        handovers: int = 0,
        begun: int = 0,
        done: int = 0,
        cancelled: int = 0,
    ) -> None:
        """Counts changes of a store's assignment; without any, its counters begin at 0."""
        self._failovers.labels(namespace, store).inc(failovers)
        self._handovers.labels(namespace, store).inc(handovers)
        for result, count in zip(_RESULTS, (begun, done, cancelled), strict=True):
            self._moves.labels(namespace, store, result).inc(count)

    def moving(self, namespace: str, store: str, *, running: int, waiting: int) -> None:
        """Sets the moves of a store, by its published status."""
        self._moves_now.labels(namespace, store, "running").set(running)
        self._moves_now.labels(namespace, store, "waiting").set(waiting)

    def short(
        self, namespace: str, store: str, *, under_replicated: int, without_in_sync: int
    ) -> None:
        """Sets the numbers of partitions that lack replicas, as of the store's last round."""
        self._under_replicated.labels(namespace, store).set(under_replicated)
        self._without_in_sync.labels(namespace, store).set(without_in_sync)

    def forget(self, namespace: str, store: str) -> None:
        """Removes all metrics of a store that is gone."""
        self.saw(namespace, store, is_ready=None)
        self.degraded(namespace, store, None)
        of_store = (self._under_replicated, self._without_in_sync, self._failovers, self._handovers)
        for metric in of_store:
            metric.remove(namespace, store)
        for state in ("running", "waiting"):
            self._moves_now.remove(namespace, store, state)
        for result in _RESULTS:
            self._moves.remove(namespace, store, result)

    def looked(
        self, *, watch_ages_s: Mapping[str, float], is_leader: bool, loop_lag_s: float
    ) -> None:
        """Sets the values that are read at each scrape."""
        self._watch_age.clear()  # Kinds that are no longer watched have no value.
        for kind, age_s in watch_ages_s.items():
            self._watch_age.labels(kind).set(age_s)
        self._lease_held.set(1 if is_leader else 0)
        self._loop_lag.set(loop_lag_s)

    def render(self, refresh: Callable[[], None]) -> bytes:
        """The text of all metrics; `refresh` sets the values that are read at a scrape."""
        refresh()
        return generate_latest(self.registry)
