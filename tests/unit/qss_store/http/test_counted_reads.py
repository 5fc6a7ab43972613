"""The reads that a pod counts for its status."""

from qss_core.wire.discovery import is_read
from qss_store.access.rights import Caller
from qss_store.http.query.routes import CONSOLE_ROUTES, QUERY_ROUTES
from qss_store.runtime.metrics import RequestMetrics


def test_requests_that_need_the_right_to_read_are_reads() -> None:
    for route in (*QUERY_ROUTES, *CONSOLE_ROUTES):
        assert is_read("query", route.path) == (route.caller is Caller.READER), route.path
        assert not is_read("internal", route.path)


def test_reads_are_counted_by_their_latency() -> None:
    metrics = RequestMetrics()
    none = metrics.reads()
    assert (none.count, none.seconds, set(none.within.values())) == (0, 0, {0})
    for route, seconds in (("/state/stores/{store}/{key}", 0.0004), ("/state/get/{store}", 0.002)):
        metrics.seen("query", route, 200, seconds)
    metrics.seen("query", "/state/count/{store}", 503, 10.0)
    metrics.seen("query", "/state/lags/{store}", 200, 1.0)
    metrics.seen("internal", "/state/get/{store}", 200, 1.0)
    reads = metrics.reads()
    assert (reads.count, reads.seconds) == (3, 10.0024)
    bounds = (0.0005, 0.001, 0.0025, 5.0)
    assert [reads.within[bound] for bound in bounds] == [1, 1, 2, 2]
