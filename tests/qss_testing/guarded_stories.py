"""Stories of the guard in virtual time; a story delays, stops and changes the API server."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry, generate_latest

from qss_client.clock import SystemClock
from qss_store.access.reviews import TOKEN_REVIEWS, NoReviewError, encode_token_review
from qss_store.access.rights import Identities, Requirement, Right
from qss_store.access.token_check import Guard
from qss_store.access.token_claims import Audiences
from qss_store.runtime.metrics import AccessMetrics
from qss_store.runtime.settings import Settings
from qss_testing.fakes.reviewer import AUDIENCE
from qss_testing.fakes.virtual_time import run_in_virtual_time

OURS = Identities(store="words", namespace="shop", pods="pods", operator="operator")
READ = Requirement(rights=(Right.QUERY,))
WRITE = Requirement(rights=(Right.WRITE,))
APP = "Bearer app"
OWN = "own"  # The token of the pod itself.
AUDIENCES = Audiences(own=AUDIENCE)


class LoopTime:
    """The time of the virtual loop from the start of the test; its wall clock may be ahead."""

    def __init__(self, ahead_s: int = 0) -> None:
        self._ahead_ms = ahead_s * 1000

    def monotonic_s(self) -> float:
        return asyncio.get_running_loop().time()

    def wall_ms(self) -> int:
        return SystemClock().wall_ms() + int(self.monotonic_s() * 1000) + self._ahead_ms

    def cpu_s(self) -> float:
        return 0.0


@dataclass
class Server:
    """Knows the account `app`; refuses any other token."""

    allowed: set[str] = field(default_factory=lambda: {"query"})
    accounts: set[str] = field(default_factory=lambda: {"app"})
    is_away: bool = False
    takes_s: float = 0.1
    asked: list[str] = field(default_factory=list)
    fails: set[str] = field(default_factory=set)  # The requests that it answers with an error.

    async def probe(self) -> None:
        await self.post(TOKEN_REVIEWS, encode_token_review(OWN, ()))

    async def post(self, path: str, body: bytes) -> bytes:
        spec = json.loads(body)["spec"]
        is_token = path == TOKEN_REVIEWS
        name: str = spec["token"] if is_token else spec["resourceAttributes"]["subresource"]
        self.asked.append(name)
        await asyncio.sleep(self.takes_s)
        if name in self.fails:
            raise NoReviewError("429")
        if self.is_away:
            raise NoReviewError("nobody is there", is_unreached=True)
        if not is_token:
            return json.dumps({"status": {"allowed": name in self.allowed}}).encode()
        status = {
            "authenticated": name in self.accounts,
            "audiences": [AUDIENCE],
            "user": {"username": name},
        }
        return json.dumps({"status": status}).encode()


async def admit(guard: Guard, header: str, requirement: Requirement, address: str = "a") -> None:
    """Admits a request as the middleware does; each requirement has a route of its own."""
    route = str(requirement.rights)
    if not guard.passes(header, route):
        await guard.admit(header, route, requirement, address)


Story = Callable[[Guard, Server], Awaitable[None]]


def play(
    story: Story,
    server: Server | None = None,
    settings: Settings | None = None,
    ahead_s: int = 0,
) -> str:
    """Runs a story in virtual time; returns the guard's metrics."""
    metrics = AccessMetrics()

    async def run() -> None:
        told = server or Server()
        clock = LoopTime(ahead_s)
        guard = Guard(told, OURS, AUDIENCES, clock, metrics, settings or Settings())
        try:
            await story(guard, told)
        finally:
            await guard.close()

    run_in_virtual_time(run())
    registry = CollectorRegistry()
    registry.register(metrics)
    return generate_latest(registry).decode()
