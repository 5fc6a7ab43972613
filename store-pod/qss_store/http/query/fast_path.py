"""The fast path: answers plain requests from their bytes, without a task and aiohttp's parser.

It answers one complete HTTP/1.1 request with usual headers, whose rows are all in this pod. All
other requests, and all that fail, take the ordinary way, which starts anew: the fast path never
refuses, so it has no error answers.
"""

import time
from email.utils import formatdate
from typing import NamedTuple

from qss_core.model import PartitionId
from qss_core.queries.parameters import ReadOptions, Scope
from qss_core.queries.requests import BatchRequest
from qss_core.wire.bodies import decode_request
from qss_store.access.token_check import Guard
from qss_store.http.browsers import Callers
from qss_store.http.content_types import JSON
from qss_store.http.large_answers import LARGE_BYTES
from qss_store.http.query.point import plan_point, state_headers
from qss_store.http.query.scans import ScanApi
from qss_store.http.query.timed import TimedApi
from qss_store.reads.context import ReadContext
from qss_store.reads.get_many import BatchGet
from qss_store.reads.routing.admission import Reading, read
from qss_store.reads.scans import replica_reads as local
from qss_store.runtime.metrics import RequestMetrics

# The paths of the table of routes (`routes`) that are answered here, too.
_KINDS = ("stores", "windows", "sessions")
KEY_ROUTES = {kind: f"/state/{kind}/{{store}}/{{key}}" for kind in _KINDS}
RANGE_ROUTES = {kind: f"/state/{kind}/{{store}}" for kind in _KINDS}
MANY_ROUTE = "/state/get/{store}"
_POINT_ROUTE, _RANGE_ROUTE = KEY_ROUTES["stores"], RANGE_ROUTES["stores"]

_GETS = {b"GET /state/%b/" % kind.encode(): route for kind, route in KEY_ROUTES.items()}
_SCANS = {b"GET /state/%b/" % kind.encode(): route for kind, route in RANGE_ROUTES.items()}
_MANY = b"POST /state/get/"
_WORD_AT = len(b"GET /state/")
_VERSION = b" HTTP/1.1\r\n"
_END = b"\r\n\r\n"
_TARGET_BYTES_MAX = 2048
_BLOCK_BYTES_MAX = 4096
_BLOCKS_MAX = 256
# Bytes of a key or store in a path that need no escape. No dot: `.` and `..` are not keys.
_PLAIN = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_~"
_PLAIN_QUERY = _PLAIN + b"=&:.,"
# Headers that do not change the answer, besides those that are checked.
_IGNORED = frozenset(
    (b"host", b"user-agent", b"accept-encoding", b"accept-language", b"content-type")
)
_LOOKED_AT = frozenset((b"accept", b"authorization", b"connection", b"content-length"))
_ANY_OR_JSON = (b"*/*", JSON.encode())
_LENGTH_DIGITS_MAX = 6
_ANSWER_BYTES_MAX = LARGE_BYTES  # Larger answers are written in slices by the ordinary way.
_FEW_KEYS = 128  # So few keys take less time than the ordinary way adds, so they wait for no turn.


class Head(NamedTuple):
    """The headers of a request that the fast path reads."""

    authorization: str | None
    body_bytes: int
    host: str


class Frame(NamedTuple):
    target: bytes  # The target after the prefix of its route.
    head: Head
    body: bytes
    route: str


class QueryFastPath:
    """The fast path of a pod's query port (connection.protocol.FastPath)."""

    def __init__(
        self,
        reader: ReadContext,
        guard: Guard | None,
        metrics: RequestMetrics,
        scans: ScanApi,
        timed: TimedApi,
        callers: Callers | None,
    ) -> None:
        """Answers requests that `guard` or `callers` admit, from `reader`, `scans` and `timed`."""
        self._reader = reader
        self._guard = guard
        self._metrics = metrics
        self._scans = scans
        self._timed = timed
        self._callers = callers
        self._options = ReadOptions()
        self._heads: dict[bytes, Head | None] = {}
        self._state_heads: dict[PartitionId, tuple[str, bytes]] = {}
        self._date = b""
        self._date_second = 0

    # --- Requests

    def frame(self, data: bytes) -> Frame | None:
        """The request in `data`, if `data` is exactly one request that the fast path handles."""
        start = data[: data.find(b"/", _WORD_AT) + 1]
        if start in _GETS:
            end = data.find(_VERSION, len(start), _TARGET_BYTES_MAX)
            head = self._head(data[end + len(_VERSION) :]) if end > 0 else None
            if head is None or head.body_bytes:
                return None
            target = data[len(start) : end]
            routes = _GETS if b"/" in target.partition(b"?")[0] else _SCANS
            return Frame(target, head, b"", routes[start])
        if data.startswith(_MANY):
            end = data.find(_VERSION, len(_MANY), _TARGET_BYTES_MAX)
            body_at = data.find(_END, end) + len(_END) if end > 0 else 0
            if body_at < len(_END):
                return None
            head = self._head(data[end + len(_VERSION) : body_at])
            if head is None or len(data) - body_at != head.body_bytes:
                return None
            if head.body_bytes > self._reader.settings.query_body_bytes_max:
                return None
            return Frame(data[len(_MANY) : end], head, data[body_at:], MANY_ROUTE)
        return None

    def _head(self, block: bytes) -> Head | None:
        """The headers, ended by an empty line; cached, since clients repeat them."""
        try:
            return self._heads[block]
        except KeyError:
            if len(block) > _BLOCK_BYTES_MAX:
                return None
            if len(self._heads) >= _BLOCKS_MAX:
                self._heads.clear()
            head = parse_head(block)
            if head is not None and self._callers and not self._callers.takes_host(head.host):
                head = None
            self._heads[block] = head
            return head

    # --- Answers

    def answer(self, frame: Frame) -> bytes | None:
        """All bytes of the answer; None if the ordinary way has to answer."""
        started = time.perf_counter()
        route = frame.route
        guard = self._guard
        if guard is not None and not guard.passes(frame.head.authorization, route):
            return None
        try:
            found = self._found(frame)
        except Exception:  # noqa: BLE001 the ordinary way fails again, and answers with the error.
            return None
        if found is None or len(found[1]) > _ANSWER_BYTES_MAX:
            return None
        head, body = found
        metrics = self._metrics
        metrics.seen("query", route, 200, time.perf_counter() - started)
        metrics.bytes_in += frame.head.body_bytes
        metrics.bytes_out += len(body)
        return b"%b%b\r\nContent-Length: %d\r\n\r\n%b" % (head, self._date_now(), len(body), body)

    def _found(self, frame: Frame) -> tuple[bytes, bytes] | None:
        """The head of the answer up to its date, and the body."""
        if frame.route == _POINT_ROUTE:
            return self._point(frame.target)
        if frame.route == MANY_ROUTE:
            return self._many(frame)
        return self._rows(frame)

    def _point(self, target: bytes) -> tuple[bytes, bytes] | None:
        store, slash, key = target.partition(b"/")
        if not slash or not key or (store + key).translate(None, _PLAIN):
            return None
        reader = self._reader
        codec = reader.key_value_codec(store.decode())
        request, partition = plan_point(codec, key.decode(), self._options)
        plan, write, large_rows = request.plan, reader.writer, reader.large_rows
        if large_rows.size_of(partition, plan.key):
            return None
        reading, body = read(
            reader.pod, partition, request, lambda state: local.read_point(state, plan, write)
        )
        if body is None:
            return None
        if len(body) > _ANSWER_BYTES_MAX:
            large_rows.note(partition, plan.key, len(body))
            return None
        return self._state_head(reading), body

    def _state_head(self, reading: Reading) -> bytes:
        """The head of an answer from this state up to its date, cached for each state."""
        last = self._state_heads.get(reading.partition)
        if last is None or last[0] is not reading.view.token:  # Each view has its own token.
            codec = self._reader.codec(self._reader.pod.store)
            headers = state_headers(codec, JSON, reading)
            lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
            head = f"HTTP/1.1 200 OK\r\n{lines}".encode()
            last = self._state_heads[reading.partition] = (reading.view.token, head)
        return last[1]

    def _many(self, frame: Frame) -> tuple[bytes, bytes] | None:
        if frame.target.translate(None, _PLAIN):
            return None
        reader = self._reader
        codec = reader.key_value_codec(frame.target.decode())
        message = decode_request(frame.body, BatchRequest)
        turns = reader.pod.turns
        if turns.is_spent and len(message.keys) > _FEW_KEYS:
            return None
        turns.begin()
        body = BatchGet(reader, codec, message, Scope.ALL, {}).answer_at_once(_ANSWER_BYTES_MAX)
        turns.end()
        return None if body is None else (_JSON_HEAD, body)

    def _rows(self, frame: Frame) -> tuple[bytes, bytes] | None:
        path, _, query = frame.target.partition(b"?")
        store, slash, key = path.partition(b"/")
        is_plain = not (store + key).translate(None, _PLAIN)
        if not is_plain or query.translate(None, _PLAIN_QUERY) or (slash and not key):
            return None
        what = frame.route.split("/")[2]
        name, asked = store.decode(), query.decode()
        if slash:
            body = self._timed.of_key_at_once(what, name, key.decode(), asked)
        elif frame.route == _RANGE_ROUTE:
            body = self._scans.at_once(name, asked)
        else:
            body = self._timed.of_keys_at_once(what, name, asked)
        return None if body is None else (_JSON_HEAD, body)

    def _date_now(self) -> bytes:
        second = self._reader.pod.clock.wall_ms() // 1000
        if second != self._date_second:
            self._date_second = second
            self._date = f"Date: {formatdate(second, usegmt=True)}".encode()
        return self._date


_JSON_HEAD = f"HTTP/1.1 200 OK\r\nContent-Type: {JSON}\r\n".encode()


def parse_head(block: bytes) -> Head | None:
    """Parses a block of headers; None if aiohttp has to parse it."""
    if not block.endswith(_END) or not block.isascii():
        return None
    found: dict[bytes, bytes] = {}
    for line in block[: -len(_END)].split(b"\r\n"):
        name, colon, value = line.partition(b":")
        name, value = name.lower(), value.strip(b" \t")
        known = name in _IGNORED or name in _LOOKED_AT
        if not colon or not known or name in found or not value.decode().isprintable():
            return None
        found[name] = value
    length = found.get(b"content-length", b"0")
    host = found.get(b"host", b"").decode()
    plain = (
        host
        and found.get(b"accept", JSON.encode()) in _ANY_OR_JSON
        and found.get(b"connection", b"keep-alive").lower() == b"keep-alive"
        and length.isdigit()
        and len(length) <= _LENGTH_DIGITS_MAX
    )
    if not plain:
        return None
    authorization = found.get(b"authorization")
    return Head(None if authorization is None else authorization.decode(), int(length), host)
