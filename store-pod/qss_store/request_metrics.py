"""Counts of requests, as plain numbers: labels and locks would cost as much as a read does.

Prometheus asks for them at a scrape. The pod's event loop alone writes and reads them.
"""

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import accumulate

from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

_BUCKETS_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0)
_BOUNDS = (*(floatToGoString(bound) for bound in _BUCKETS_S), "+Inf")


@dataclass(slots=True)
class _Route:
    """One route's numbers; `buckets` are not cumulative."""

    statuses: dict[int, int] = field(default_factory=dict)
    buckets: list[int] = field(default_factory=lambda: [0] * len(_BOUNDS))
    seconds: float = 0.0


class RequestMetrics(Collector):
    """All requests of a pod."""

    def __init__(self) -> None:
        """Nothing has happened."""
        self._routes: dict[tuple[str, str], _Route] = {}
        self.bytes_in = 0
        self.bytes_out = 0

    def seen(self, listener: str, route: str, status: int, seconds: float) -> None:
        """A request was answered; `route` is the template of its path."""
        numbers = self._routes.get((listener, route))
        if numbers is None:
            numbers = self._routes[listener, route] = _Route()
        numbers.statuses[status] = numbers.statuses.get(status, 0) + 1
        numbers.buckets[bisect_left(_BUCKETS_S, seconds)] += 1
        numbers.seconds += seconds

    def collect(self) -> Iterator[Metric]:
        """What a scrape gets."""
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
