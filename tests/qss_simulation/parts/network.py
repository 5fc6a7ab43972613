"""A network between machines: it loses, repeats, delays and reorders messages, and can be cut.

Messages are values: what arrives was encoded and decoded, and shares nothing with its sender.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from io import BufferedIOBase, BytesIO
from random import Random  # noqa: TID251 seeded by the story.
from typing import TypeVar

from qss_core.errors import StoreError, UnreachableError
from qss_core.wire.messages import Problem, decode, encode, error_of, problem_of
from qss_simulation.parts.seeded_loop import WORLD, SeededLoop, context_of, current_node, host_of
from qss_simulation.parts.trace import Trace
from qss_store.runtime.blocking import run_blocking

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Request:
    """A request at a host: the path with its query string, the body and its media type."""

    path: str
    body: bytes
    media: str


# Returns the body of the answer; raises StoreError.
Handle = Callable[[Request], Awaitable[bytes]]


@dataclass(slots=True)
class Rule:
    """The fate of the next messages to, or answers from, a host, in place of their arrival.

    `path` is a part of their path; `effect` may have a message arrive. With an `other` host only
    the messages of that one count, and the answers to it.
    """

    host: str
    path: str
    is_answer: bool
    times: int
    effect: Callable[[Callable[[], None]], None]
    other: str | None = None

    def is_of(self, host: str, other: str, path: str, *, is_answer: bool) -> bool:
        """Whether the rule says what happens to a message."""
        is_between = self.host == host and self.other in (None, other)
        return is_between and self.is_answer == is_answer and self.path in path


@dataclass(slots=True)
class NetworkFaults:
    """The chances of each message, and the ways that are cut; `rules` come before these."""

    lost: float = 0.0
    repeated: float = 0.0
    late: float = 0.0
    cut: set[tuple[str, str]] = field(default_factory=set)  # From a machine to another one.
    rules: list[Rule] = field(default_factory=list)

    def heal(self) -> None:
        """Carries all messages from now on."""
        self.lost = self.repeated = self.late = 0.0
        self.cut.clear()
        self.rules.clear()

    def rule_of(self, host: str, other: str, path: str, *, is_answer: bool) -> Rule | None:
        """The rule of a message; it counts once."""
        for rule in self.rules:
            if rule.times > 0 and rule.is_of(host, other, path, is_answer=is_answer):
                rule.times -= 1
                return rule
        return None


@dataclass(frozen=True, slots=True)
class _Server:
    node: str
    handle: Handle


class Network:
    """Carries requests to the node that listens at a host, and their answers back."""

    def __init__(
        self,
        loop: SeededLoop,
        random: Random,
        trace: Trace,
        on_bug: Callable[[BaseException], None],
    ) -> None:
        """Nobody listens; `on_bug` gets errors that are no StoreErrors."""
        self.faults = NetworkFaults()
        self._on_bug = on_bug
        self._loop = loop
        self._random = random
        self._trace = trace
        self._servers: dict[str, _Server] = {}

    @property
    def now_s(self) -> float:
        """The simulated time, which no process knows."""
        return self._loop.now_s

    def listen(self, host: str, handle: Handle) -> None:
        """Requests to `host` go to the node that runs now, until another one listens there."""
        self._servers[host] = _Server(current_node(), handle)

    async def exchange(self, url: str, body: bytes, timeout_s: float, media: str = "") -> bytes:
        """The answer's body. Raises the error of the answer, or UnreachableError."""
        host, _, path = url.removeprefix("http://").partition("/")
        request = Request(path, body, media)
        answered: asyncio.Future[bytes] = self._loop.create_future()
        sender = current_node()
        self._trace.note("send", f"{host}/{path}")
        for _ in range(1 + self._is(self.faults.repeated)):
            arrive = partial(self._arrive, sender, host, request, answered)
            self._by_rule(host, request, arrive, sender, host, is_answer=False)
        try:
            async with asyncio.timeout(timeout_s):
                return await answered
        except TimeoutError as error:
            raise UnreachableError(f"{host} did not answer within {timeout_s} s") from error

    def _arrive(
        self, sender: str, host: str, request: Request, answered: "asyncio.Future[bytes]"
    ) -> None:
        server = self._servers.get(host)
        if server is None or self._loop.is_dead(server.node):
            refused = UnreachableError(f"nobody listens at {host}")
            self._carry(host, sender, lambda: _fail(answered, refused))
            return
        self._loop.start(server.node, self._serve(server, sender, request, answered))

    async def _serve(
        self,
        server: _Server,
        sender: str,
        request: Request,
        answered: "asyncio.Future[bytes]",
    ) -> None:
        """In the node that serves: it may die, and then nobody answers."""
        try:
            answer = await server.handle(request)
        except StoreError as error:
            told = error_of(decode(encode(problem_of(error)), Problem))
            self._answer(server, sender, request, partial(_fail, answered, told))
        except Exception as error:  # noqa: BLE001 a pod would answer 500.
            self._on_bug(error)
        else:
            self._answer(server, sender, request, partial(_tell, answered, answer))

    def _answer(
        self, server: _Server, sender: str, request: Request, arrive: Callable[[], None]
    ) -> None:
        host = host_of(server.node)
        self._by_rule(host, request, arrive, server.node, sender, is_answer=True)

    def _by_rule(
        self,
        host: str,
        request: Request,
        arrive: Callable[[], None],
        sender: str,
        receiver: str,
        *,
        is_answer: bool,
    ) -> None:
        """Carries a message to or from a host, unless a rule says what happens to it."""
        other = host_of(receiver if is_answer else sender)
        rule = self.faults.rule_of(host, other, request.path, is_answer=is_answer)
        if rule is None:
            self._carry(sender, receiver, arrive)
        else:
            self._trace.note("ruled", f"{'answer of ' if is_answer else ''}{host}/{request.path}")
            rule.effect(arrive)

    def _carry(self, sender: str, receiver: str, arrive: Callable[[], None]) -> None:
        """Has a message arrive, or not."""
        way = (host_of(sender), host_of(receiver))
        if way in self.faults.cut or self._is(self.faults.lost):
            self._trace.note("lost", f"{way[0]} to {way[1]}")
            return
        mean_s = 0.5 if self._is(self.faults.late) else 0.0005
        delay_s = self._random.expovariate(1 / mean_s)
        self._loop.call_at(self._loop.now_s + delay_s, arrive, context=context_of(WORLD))

    def _is(self, chance: float) -> bool:
        return chance > 0 and self._random.random() < chance


class SimulatedTransport:
    """Carries messages between pods over the simulated network."""

    def __init__(self, network: Network) -> None:
        self._network = network

    async def post(self, url: str, message: object, kind: type[Answer], timeout_s: float) -> Answer:
        """Sends a message, and returns its answer; raises as `Transport.post`."""
        return decode(await self._network.exchange(url, encode(message), timeout_s), kind)

    async def send(self, url: str, body: bytes, timeout_s: float) -> bytes:
        """Sends bytes, and returns the answer's; raises as `Transport.send`."""
        return await self._network.exchange(url, body, timeout_s)

    async def download(
        self, url: str, body: bytes, take: Callable[[BufferedIOBase], None], timeout_s: float
    ) -> None:
        """As `send`; the answer is read as work of a thread."""
        await run_blocking(take, BytesIO(await self.send(url, body, timeout_s)))


def _tell(answered: "asyncio.Future[bytes]", answer: bytes) -> None:
    if not answered.done():
        answered.set_result(answer)


def _fail(answered: "asyncio.Future[bytes]", error: StoreError) -> None:
    if not answered.done():
        answered.set_exception(error)
