"""The operator's probes and metrics, as the kubelet and Prometheus get them."""

from collections.abc import AsyncIterator

import aiohttp
import pytest

from qss_operator.kubernetes.leadership.health import Health, HealthLimits, serve_ops
from qss_operator.metrics import OperatorMetrics
from qss_testing.fakes.virtual_time import SetClock


@pytest.fixture
def clock() -> SetClock:
    return SetClock()


@pytest.fixture
def health(clock: SetClock) -> Health:
    limits = HealthLimits(round_s=60.0, loop_lag_s=1000.0)
    return Health(limits, clock=clock)


@pytest.fixture
def metrics() -> OperatorMetrics:
    return OperatorMetrics()


@pytest.fixture
async def url(health: Health, metrics: OperatorMetrics) -> AsyncIterator[str]:
    async with serve_ops(health, metrics, "127.0.0.1", 0) as port:
        yield f"http://127.0.0.1:{port}"


async def get(url: str) -> tuple[int, str]:
    async with aiohttp.ClientSession() as session, session.get(url) as response:
        return response.status, await response.text()


async def test_a_round_that_never_ends_makes_the_operator_restart(
    url: str, health: Health, clock: SetClock
) -> None:
    with health.round_of("shop/words"):
        clock.now_s += 61
        assert await get(f"{url}/livez") == (503, "a round of shop/words runs for 61 s\n")
    assert await get(f"{url}/livez") == (200, "ok\n")


def test_an_event_loop_that_does_not_turn_is_a_problem(health: Health, clock: SetClock) -> None:
    clock.now_s += 1001
    assert health.problems() == ["the event loop is late by 1001 s"]


async def test_leader_and_follower_are_ready_once_the_api_server_answered(
    url: str, health: Health
) -> None:
    for code in ("timeout", "unreachable", "503"):
        health.requested("get", "leases", code, 1.0)
        assert (await get(f"{url}/readyz"))[0] == 503
    health.requested("get", "leases", "404", 1.0)
    assert await get(f"{url}/readyz") == (200, "follower\n")
    health.is_leader = True
    health.requested("get", "leases", "timeout", 1.0)
    assert await get(f"{url}/readyz") == (200, "leader\n")


async def test_the_metrics_show_what_happened(
    url: str, health: Health, metrics: OperatorMetrics, clock: SetClock
) -> None:
    health.heard("pods")
    health.is_leader = True
    clock.now_s += 7
    metrics.reconciled("settled", 0.2)
    metrics.started(0.05)
    metrics.failed("CONFLICT")
    metrics.requested("list", "pods", "200", 0.01)
    metrics.has_stores(3)
    for store, is_ready in (
        ("served", True),
        ("broken", False),
        ("asleep", True),
        ("asleep", None),
    ):
        metrics.saw("shop", store, is_ready=is_ready)
    status, text = await get(f"{url}/metrics")
    assert status == 200
    for line in (
        'qss_operator_reconciles_total{result="settled"} 1.0',
        "qss_operator_reconcile_seconds_count 1.0",
        "qss_operator_queue_seconds_sum 0.05",
        'qss_operator_errors_total{code="CONFLICT"} 1.0',
        'qss_operator_api_requests_total{code="200",resource="pods",verb="list"} 1.0',
        'qss_operator_api_request_seconds_count{verb="list"} 1.0',
        'qss_operator_watch_age_seconds{kind="pods"} 7.0',
        "qss_operator_lease_held 1.0",
        "qss_operator_stores 3.0",
        'qss_operator_store_ready{namespace="shop",store="served"} 1.0',
        'qss_operator_store_ready{namespace="shop",store="broken"} 0.0',
    ):
        assert line in text.splitlines(), line
    assert "asleep" not in text


async def test_the_metrics_of_a_store_show_its_changes_and_go_with_it(
    url: str, metrics: OperatorMetrics
) -> None:
    for store in ("served", "deleted"):
        metrics.saw("shop", store, is_ready=True)
        metrics.changed("shop", store)
        metrics.changed("shop", store, failovers=2, handovers=1, begun=3, done=2, cancelled=1)
        metrics.moving("shop", store, running=1, waiting=4)
        metrics.short("shop", store, under_replicated=5, without_in_sync=1)
        metrics.degraded("shop", store, "PodsFailing")
    metrics.forget("shop", "deleted")
    _, text = await get(f"{url}/metrics")
    for line in (
        'qss_operator_failovers_total{namespace="shop",store="served"} 2.0',
        'qss_operator_handovers_total{namespace="shop",store="served"} 1.0',
        'qss_operator_moves_total{namespace="shop",result="begun",store="served"} 3.0',
        'qss_operator_moves_total{namespace="shop",result="done",store="served"} 2.0',
        'qss_operator_moves_total{namespace="shop",result="cancelled",store="served"} 1.0',
        'qss_operator_store_moves{namespace="shop",state="running",store="served"} 1.0',
        'qss_operator_store_moves{namespace="shop",state="waiting",store="served"} 4.0',
        'qss_operator_store_under_replicated_partitions{namespace="shop",store="served"} 5.0',
        (
            "qss_operator_store_partitions_without_in_sync_replica"
            '{namespace="shop",store="served"} 1.0'
        ),
    ):
        assert line in text.splitlines(), line
    assert "deleted" not in text


async def test_the_longest_delay_of_the_event_loop_is_told_once(
    health: Health, clock: SetClock
) -> None:
    delays = iter([0.1, 2.1, 0.1])

    async def sleep(_: float) -> None:
        delay = next(delays, None)
        if delay is None:
            raise TimeoutError
        clock.now_s += delay

    with pytest.raises(TimeoutError):
        await health.watch_loop(sleep)
    assert health.take_lag_s() == pytest.approx(2.0)
    assert health.take_lag_s() == 0.0


def test_a_watch_that_keeps_changes_to_itself_is_a_problem_until_it_speaks(health: Health) -> None:
    health.missed("pods")
    assert health.problems() == [], "one may have been on its way"
    health.missed("pods")
    assert health.problems() == ["the watch of pods did not report 2 changes"]
    health.heard("pods")
    assert health.problems() == []


def test_a_round_that_is_due_and_does_not_come_is_a_problem(
    health: Health, clock: SetClock
) -> None:
    health.due("shop/words", clock.now_s + 10)
    clock.now_s += 70
    assert health.problems() == []
    clock.now_s += 1
    assert health.problems() == ["a round of shop/words should have begun 61 s ago"]
    with health.round_of("shop/words"):
        assert health.problems() == []
    health.due("shop/words", clock.now_s)
    health.is_over("shop/words")
    clock.now_s += 1000 - 81
    assert health.problems() == []
