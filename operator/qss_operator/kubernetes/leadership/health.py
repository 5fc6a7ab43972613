"""The operator's ops port: whether the kubelet should restart it, and its metrics.

An operator without the lease runs no watches and no rounds, so its health expects none.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from itertools import count

from aiohttp import web

from qss_client.clock import Clock
from qss_operator.metrics import OperatorMetrics

_TICK_S = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthLimits:
    """The limits of missed changes, delay and rounds.

    A watch may bring nothing for long in a quiet cluster, so silence alone is no problem.
    """

    missed_max: int = 2  # Changes that a read found, since the watch last reported one.
    loop_lag_s: float = 10.0
    round_s: float = 300.0


@dataclass(frozen=True, slots=True)
class _Round:
    store: str
    started_s: float


class Health:
    """Collects the signs of life of the operator's parts."""

    def __init__(self, limits: HealthLimits, *, clock: Clock) -> None:
        """Begins without the lease, and without an answer of the API server."""
        self._limits = limits
        self._clock = clock
        self._heard_s: dict[str, float] = {}
        self._missed: Counter[str] = Counter()
        self._rounds: dict[int, _Round] = {}
        self._due_s: dict[str, float] = {}
        self._numbers = count()
        self._turned_s = clock.monotonic_s()
        self._lag_s = 0.0
        self.is_leader = False
        self.has_reached_api = False

    def heard(self, kind: str) -> None:
        """Notes that a watch of this kind began, or got an event or a bookmark."""
        self._heard_s[kind] = self._clock.monotonic_s()
        self._missed.pop(kind, None)

    def missed(self, kind: str) -> None:
        """Notes a change of this kind that its watch did not report."""
        self._missed[kind] += 1

    def requested(self, _verb: str, _resource: str, code: str, _seconds: float) -> None:
        """Notes the end of a try of a request; KubernetesApi calls it."""
        self.has_reached_api = self.has_reached_api or (code.isdigit() and code < "500")

    @contextmanager
    def round_of(self, store: str) -> Iterator[None]:
        """Counts the block as a round of this store."""
        self._due_s.pop(store, None)
        number = next(self._numbers)
        self._rounds[number] = _Round(store, self._clock.monotonic_s())
        try:
            yield
        finally:
            del self._rounds[number]

    def due(self, store: str, at_s: float) -> None:
        """Notes the time at which the next round of this store has to begin."""
        self._due_s[store] = at_s

    def due_by_now(self, store: str) -> None:
        """As `due` with the present time, unless an earlier time is known."""
        self._due_s.setdefault(store, self._clock.monotonic_s())

    def is_over(self, store: str) -> None:
        """Notes that no round is due: the store is gone, or waits for its namespace's slot."""
        self._due_s.pop(store, None)

    async def watch_loop(self, sleep: Callable[[float], Awaitable[None]]) -> None:
        """Measures stalls of the event loop, until it is cancelled."""
        while True:
            before_s = self._turned_s = self._clock.monotonic_s()
            await sleep(_TICK_S)
            self._lag_s = max(self._lag_s, self._clock.monotonic_s() - before_s - _TICK_S)

    def watch_ages_s(self) -> dict[str, float]:
        """The seconds since each watch was last heard, by kind."""
        now_s = self._clock.monotonic_s()
        return {kind: now_s - heard_s for kind, heard_s in self._heard_s.items()}

    def take_lag_s(self) -> float:
        """The longest delay since the last call."""
        lag_s, self._lag_s = self._lag_s, 0.0
        return lag_s

    def problems(self) -> list[str]:
        """The reasons to restart this process; empty while it is healthy."""
        limits = self._limits
        now_s = self._clock.monotonic_s()
        problems = [
            f"the watch of {kind} did not report {missed} changes"
            for kind, missed in self._missed.items()
            if missed >= limits.missed_max
        ]
        problems += [
            f"a round of {round_.store} runs for {now_s - round_.started_s:.0f} s"
            for round_ in self._rounds.values()
            if now_s - round_.started_s > limits.round_s
        ]
        problems += [
            f"a round of {store} should have begun {now_s - due_s:.0f} s ago"
            for store, due_s in self._due_s.items()
            if now_s - due_s > limits.round_s
        ]
        if (late_s := now_s - self._turned_s) > limits.loop_lag_s:
            problems.append(f"the event loop is late by {late_s:.0f} s")
        return problems


def make_ops_app(health: Health, metrics: OperatorMetrics) -> web.Application:
    """The application of the ops port."""

    def refresh() -> None:
        metrics.looked(
            watch_ages_s=health.watch_ages_s(),
            is_leader=health.is_leader,
            loop_lag_s=health.take_lag_s(),
        )

    async def get_metrics(_: web.Request) -> web.Response:
        body = metrics.render(refresh)
        return web.Response(body=body, headers={"Content-Type": "text/plain; version=0.0.4"})

    async def livez(_: web.Request) -> web.Response:
        problems = health.problems()
        return web.Response(status=503 if problems else 200, text=_lines(problems or ["ok"]))

    async def readyz(_: web.Request) -> web.Response:
        # Without the lease it is ready, too: a rollout waits for it, and it may take the lease.
        if not health.has_reached_api:
            return web.Response(status=503, text="the API server has not answered yet\n")
        return web.Response(text="leader\n" if health.is_leader else "follower\n")

    app = web.Application()
    app.add_routes(
        [web.get("/metrics", get_metrics), web.get("/livez", livez), web.get("/readyz", readyz)]
    )
    return app


@asynccontextmanager
async def serve_ops(
    health: Health, metrics: OperatorMetrics, host: str, port: int
) -> AsyncIterator[int]:
    """The ops port, open while the block runs; its number, which 0 leaves to the system."""
    runner = web.AppRunner(make_ops_app(health, metrics), access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    ticking = asyncio.create_task(health.watch_loop(asyncio.sleep))
    try:
        await web.TCPSite(runner, host, port).start()
        yield int(runner.addresses[0][1])
    finally:
        ticking.cancel()
        await runner.cleanup()


def _lines(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in lines)
