"""The fuzz of the fast path: a plan of requests, sent in several ways, has equal answers.

The fast path answers a plain request that comes in one piece. A request that comes in several
pieces, or has another header, takes the ordinary way. So both ways answer the same requests, and
every difference is a bug of one of them.
"""

import asyncio
import fcntl
import json
import socket
import termios
from collections.abc import Iterable
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from itertools import pairwise, zip_longest
from random import Random  # noqa: TID251 seeded, and the seed is printed.
from struct import Struct

from aiohttp import web

from qss_testing.clients.fast_path_requests import Plan, Request
from qss_testing.pods.ports import port_of

_DEADLINE_S = 120
# struct tcp_info of Linux, up to tcpi_bytes_received.
_RECEIVED = Struct("=Q")
_RECEIVED_AT = 128
_TCP_INFO_BYTES = _RECEIVED_AT + _RECEIVED.size
_BYTE_BY_BYTE_MAX = 4096
_OF_PARSER = (400, 431)
# After these answers the server reads and drops bytes for a while, before it closes.
_LINGERING = (413, 431)


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer; `headers` are sorted, without the date."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes
    closes: bool

    def __str__(self) -> str:
        return f"{self.status} {dict(self.headers)} {self.body[:300]!r}"


@dataclass(frozen=True, slots=True)
class Server:
    """The pod's listener, in this process."""

    runner: web.AppRunner

    def has_read(self, sent: int, address: tuple[str, int]) -> bool:
        """Whether the listener has read so many bytes of a client's connection.

        The kernel counts the bytes that came, and the bytes that wait to be read.
        """
        assert self.runner.server is not None, "it listens"
        for one in self.runner.server.connections:
            transport = one.transport
            if transport is not None and transport.get_extra_info("peername") == address:
                connection = transport.get_extra_info("socket")
                told = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO_BYTES)
                waiting = fcntl.ioctl(connection.fileno(), termios.FIONREAD, bytes(4))
                return _RECEIVED.unpack(told[_RECEIVED_AT:])[0] >= sent and waiting == bytes(4)
        return False


@dataclass(slots=True)
class Client(asyncio.Protocol):
    """One connection; each piece reaches the server by itself."""

    server: Server
    plan: Plan
    data: bytearray = field(default_factory=bytearray)
    is_closed: bool = False
    sent: int = 0
    transport: asyncio.WriteTransport | None = None
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.data += data
        self.changed.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_closed = True
        self.changed.set()

    async def send(self, piece: bytes) -> None:
        """Sends a piece; returns when the server has read it, or has closed."""
        assert self.transport is not None, "it is connected"
        if self.is_closed or not piece:
            return
        self.sent += len(piece)
        self.transport.write(piece)
        address = self.transport.get_extra_info("sockname")
        # The kernel wakes nobody when its counters change.
        while not self.is_closed and not self.server.has_read(self.sent, address):  # noqa: ASYNC110
            await asyncio.sleep(0)

    def answers(self) -> list[Answer]:
        """The answers that are complete."""
        heads = [request.is_head for request in self.plan]
        return list(_answers_in(bytes(self.data), heads))

    async def has_answers(self, count: int) -> None:
        """Returns when there are so many answers, or no more will come."""
        while not self.is_closed:
            self.changed.clear()
            found = self.answers()
            if len(found) >= count or (found and found[-1].status in _LINGERING):
                return
            await self.changed.wait()


def _answers_in(data: bytes, heads: list[bool]) -> Iterable[Answer]:
    """Raises ValueError for bytes that are not an answer."""
    found = 0
    while (end := data.find(b"\r\n\r\n")) >= 0:
        first, *lines = data[:end].decode().split("\r\n")
        version, status, _ = first.split(" ", 2)
        if not version.startswith("HTTP/"):
            raise ValueError(f"no answer begins so: {data[:80]!r}")
        headers = {name.lower(): value for name, _, value in (one.partition(": ") for one in lines)}
        if "date" in headers:
            parsedate_to_datetime(headers.pop("date"))
        is_bodiless = status == "304" or (found < len(heads) and heads[found])
        size = 0 if is_bodiless else int(headers.get("content-length", "0"))
        data = data[end + 4 :]
        if len(data) < size:
            return
        closes = headers.get("connection", "").lower() == "close"
        yield Answer(int(status), tuple(sorted(headers.items())), data[:size], closes)
        data = data[size:]
        found += 1


# --- Ways


Way = list[tuple[list[bytes], int]]  # Pieces, and the number of answers to await after each.


def ways_of(plan: Plan, random: Random) -> dict[str, Way]:
    """The ways to send a plan, by their names."""
    each = [request.data() for request in plan]
    whole = b"".join(each)
    step = 1 if len(whole) <= _BYTE_BY_BYTE_MAX else 997
    edges = [edge for edge in _edges(plan) if random.random() < 0.7]
    cuts = sorted(random.sample(range(1, len(whole)), min(len(whole) - 1, random.randint(1, 9))))
    awaited = list(range(1, len(plan) + 1))
    in_turn = [[one] for one in each]
    with_more = [[one.data(with_more=True)] for one in plan]
    at_edges = [_cut(one.data(), one.edges()) for one in plan]
    return {
        "a header more, request by request": list(zip(with_more, awaited, strict=True)),
        "request by request": list(zip(in_turn, awaited, strict=True)),
        "at the edges of each request": list(zip(at_edges, awaited, strict=True)),
        "up to what is hidden": _up_to_hidden(plan),
        "one piece": [([whole], 0)],
        "requests without waiting": [(each, 0)],
        "at some edges without waiting": [(_cut(whole, edges), 0)],
        "random pieces": [(_cut(whole, cuts), 0)],
        "small pieces": [([whole[at : at + step] for at in range(0, len(whole), step)], 0)],
    }


def _up_to_hidden(plan: Plan) -> Way:
    """Sends all before a hidden request in one piece, and waits for the answers before it."""
    way: Way = []
    before = b""
    for number, request in enumerate(plan):
        data = request.data()
        for cut in request.cuts:
            at = data.find(cut)
            way += [([before + data[:at]], number), ([data[at:]], number + 1)]
            before = data = b""
        before += data
    return [*way, ([before], len(plan))]


def _edges(plan: Plan) -> list[int]:
    found, start = [], 0
    for request in plan:
        found += [start + edge for edge in request.edges()]
        start += len(request.data())
    return found


def _cut(data: bytes, at: list[int]) -> list[bytes]:
    places = [0, *at, len(data)]
    return [data[start:end] for start, end in pairwise(places)]


async def ask(server: Server, plan: Plan, way: Way) -> list[Answer]:
    """All answers to a plan that is sent in one way."""
    loop = asyncio.get_running_loop()
    client = Client(server, plan)
    transport, _ = await loop.create_connection(lambda: client, "127.0.0.1", port_of(server.runner))
    try:
        async with asyncio.timeout(_DEADLINE_S):
            for pieces, awaited in way:
                for piece in pieces:
                    await client.send(piece)
                if all(one.is_whole for one in plan[:awaited]):
                    await client.has_answers(awaited)
            await client.has_answers(len(plan) + 1)
    except TimeoutError:
        raise AssertionError(
            f"the connection is neither answered nor closed: {client.data[-500:]!r}"
        ) from None
    finally:
        transport.close()
    return client.answers()


# --- Checks


async def check(server: Server, plan: Plan, random: Random, values: dict[str, object]) -> int:
    """Sends a plan in each way, and compares; returns the number of answered requests."""
    first: list[Answer] = []
    answered = 0
    is_whole = all(request.is_whole for request in plan)
    for name, way in ways_of(plan, random).items():
        answers = await ask(server, plan, way)
        answered += len(answers)
        first = first or answers
        may_differ = not is_whole and not name.endswith("request by request")
        alike = answers == first or (may_differ and _is_cut(plan, answers, first))
        if not alike:
            shown = "\n".join(
                f"  {one}\n  {other}" for one, other in zip_longest(first, answers) if one != other
            )
            raise AssertionError(f"{name}: {len(answers)} answers, not {len(first)}\n{shown}")
    check_answers(plan, first, values)
    return answered


def _is_cut(plan: Plan, answers: list[Answer], first: list[Answer]) -> bool:
    """Whether a refusal of unparsable bytes came earlier, or one answer later.

    The parser drops complete requests in the same piece; and a request with a complete head may be
    answered before its body turns out to be invalid.
    """
    sound = next(number for number, request in enumerate(plan) if not request.is_whole)
    kept = [*answers]
    if kept and kept[-1].status in _OF_PARSER:
        kept.pop()
    return kept[:sound] == first[: len(kept[:sound])] and len(kept) <= sound + 1


def check_answers(plan: Plan, answers: list[Answer], values: dict[str, object]) -> None:
    """Each answer is that of its request, and does not name the server."""
    assert answers, "nothing was answered"
    assert len(answers) <= len(plan), "more answers than requests"
    for number, answer in enumerate(answers):
        assert "server" not in dict(answer.headers), f"the server is told: {answer}"
        assert not answer.closes or number == len(answers) - 1, "an answer behind the last one"
        if all(one.is_whole for one in plan[:number]):
            check_answer(plan[number], answer, values)
    may_end = (
        answers[-1].closes
        or answers[-1].status in _OF_PARSER
        or not all(one.is_whole for one in plan)
    )
    assert len(answers) == len(plan) or may_end, "an answer is missing"


def check_answer(request: Request, answer: Answer, values: dict[str, object]) -> None:
    """The answer fits its request."""
    status = request.status
    assert status in (None, answer.status), f"{status} to {request}, not {answer}"
    asks_to_close = any(b"close" in line.lower() for line in request.headers)
    assert not answer.closes or asks_to_close or answer.status >= 400, "closed without a reason"
    if answer.status != 200 or request.is_head or not request.keys:
        return
    found = json.loads(answer.body)
    rows = found.get("results", found.get("rows", [found]))
    if "rows" in found:
        assert {row["key"] for row in rows} <= set(request.keys)
    else:
        assert [row["key"] for row in rows] == list(request.keys), f"{answer} to {request}"
    for row in rows:
        assert row.get("value") == values.get(row["key"]), f"{answer} to {request}"
