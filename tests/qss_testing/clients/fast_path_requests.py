"""Requests for the fuzz of the fast path: plain ones, unusual ones, and smuggled ones.

A plan has the requests of one connection in order; the last one asks the server to close. Each
request knows its answer, as far as HTTP determines it.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random  # noqa: TID251 seeded, and the seed is printed.

KEYS = 24
POINT = b"/state/stores/words/"
WINDOWS = b"/state/windows/words/"
BATCH = b"/state/get/words"
BODY_BYTES_MAX = 4096
HEAD_BYTES_MAX = 64 * 1024
HEADERS_MAX = 64
_SHOWN_BYTES = 250
_HOSTS = (b"Host: pod", b"host: 127.0.0.1:80", b"HOST:  pod ", b"Host:\tlocalhost")
_PLAIN_HEADERS = (
    b"User-Agent: fuzz/1",
    b"accept: */*",
    b"Accept: application/json",
    b"Accept-Encoding: gzip, br",
    b"Connection: Keep-Alive",
    b"Accept-Language: \t en ",
    b"Content-Type: application/json",
)
MORE = b"X-More: 1"


@dataclass(frozen=True, slots=True)
class Request:
    """A request's bytes, and what is known of its answer."""

    line: bytes
    headers: tuple[bytes, ...]
    body: bytes = b""
    status: int | None = None
    keys: tuple[str, ...] = ()  # The keys of a successful answer, in order.
    is_whole: bool = True  # Whether the request ends with its bytes, so that it is answered.
    takes_more: bool = True  # Whether another header changes nothing.
    cuts: tuple[bytes, ...] = ()  # A piece that looks complete may end before these bytes.

    @property
    def is_head(self) -> bool:
        """Whether its answer has no body."""
        return self.line.startswith(b"HEAD ")

    def __str__(self) -> str:
        shown = self.data()
        cut = f"... ({len(shown)} bytes)" if len(shown) > _SHOWN_BYTES else ""
        return f"{shown[:_SHOWN_BYTES]!r}{cut}"

    def data(self, *, with_more: bool = False) -> bytes:
        headers = (MORE, *self.headers) if with_more and self.takes_more else self.headers
        return b"".join(b"%b\r\n" % line for line in (self.line, *headers, b"")) + self.body

    def edges(self) -> list[int]:
        """The positions at which a piece may end, for tests of the parser."""
        data = self.data()
        found = {len(data) - len(self.body), len(data), len(self.line) + 2}
        found |= {data.find(cut) for cut in self.cuts}
        return sorted(edge for edge in found if edge > 0)


Plan = tuple[Request, ...]


def plan_of(random: Random, kind: str, number: int) -> Plan:
    """The plan of one connection to a store of a kind (`stores`, `windows`).

    Each plan has one strange request; consecutive numbers choose very different ones.
    """
    drawn = [_request(random, kind) for _ in range(random.randint(1, 5))]
    strange = [request for make in _STRANGE for request in make(random)]
    drawn.insert(random.randint(0, len(drawn)), strange[number * _STRIDE % len(strange)])
    plan = (*drawn, _last(random, is_closing=False), _last(random, is_closing=True))
    return plan if kind == "stores" else tuple(_of_windows(request) for request in plan)


def _of_windows(request: Request) -> Request:
    """The same request to a store of windows, which has no single rows."""
    line, body, *cuts = (
        data.replace(POINT, WINDOWS) for data in (request.line, request.body, *request.cuts)
    )
    sizes = b": %d" % len(request.body), b": %d" % len(body)
    headers = tuple(
        header.replace(POINT, WINDOWS).replace(*(sizes if request.cuts else (b"", b"")))
        for header in request.headers
    )
    # It has no batch gets, and no entity tags for many rows.
    is_known = line.startswith(b"GET ") and request.status != 304
    status = request.status if is_known else None
    return replace(request, line=line, headers=headers, body=body, status=status, cuts=tuple(cuts))


def key_of(number: int) -> str:
    """The name of a key that has a row."""
    return f"k{number}"


# --- Requests that are understood


def _request(random: Random, kind: str) -> Request:
    weights = {_point: 6, _batch: 4, _absent: 1, _elsewhere: 1}
    if kind == "windows":
        weights = {_windows: 8, _absent: 1, _elsewhere: 1}
    return random.choices(list(weights), list(weights.values()))[0](random)


def _key(random: Random) -> str:
    return key_of(random.randrange(KEYS))


def _headers(random: Random) -> tuple[bytes, ...]:
    chosen = random.sample(_PLAIN_HEADERS, random.randint(0, 3))
    by_name = {line.split(b":")[0].lower(): line for line in chosen}
    lines = [random.choice(_HOSTS), *by_name.values()]
    random.shuffle(lines)
    return tuple(lines)


def _get(random: Random, target: bytes, status: int | None = None, *keys: str) -> Request:
    return Request(b"GET %b HTTP/1.1" % target, _headers(random), b"", status, keys)


def _point(random: Random) -> Request:
    key = _key(random)
    return _get(random, POINT + key.encode(), 200, key)


def _windows(random: Random) -> Request:
    key = _key(random)
    query = random.choice(
        [b"", b"", b"?limit=2", b"?from=0&order=DESCENDING", b"?start=0", b"?limit=x", b"?", b"?a"]
    )
    known = {b"?limit=x": 400, b"?a": 400}.get(query, 200)
    return _get(random, WINDOWS + key.encode() + query, known, key)


def _batch(random: Random) -> Request:
    keys = random.sample([key_of(number) for number in range(KEYS + 4)], random.randint(0, 8))
    if keys and random.random() < 0.2:
        keys.append(random.choice(keys))
    body = json.dumps({"keys": keys}, indent=random.choice([None, 1])).encode()
    return _post(random, body, 200, *keys)


def _post(random: Random, body: bytes, status: int | None, *keys: str) -> Request:
    headers = (*_headers(random), b"Content-Length: %d" % len(body))
    return Request(b"POST %b HTTP/1.1" % BATCH, headers, body, status, keys)


def _absent(random: Random) -> Request:
    return _get(random, POINT + random.choice([b"absent", b"K1", b"k1_", b"~"]))


def _elsewhere(random: Random) -> Request:
    target = random.choice([b"/state/stores/birds/k1", BATCH, b"/nowhere", b"/"])
    return _get(random, target, 405 if target == BATCH else 404)


def _spelled(random: Random) -> list[Request]:
    """Targets that mean the same as others, or only look so."""
    return [replace(_get(random, target), is_whole=target.isascii()) for target in _SPELLINGS]


_SPELLINGS = (
    POINT + b"k%31",
    POINT + b"%6B1",
    POINT + b"k1%2f",
    POINT + b"k1/",
    POINT + b"k1?",
    POINT + b"k1#k2",
    POINT + b"",
    POINT + b".",
    POINT + b"..",
    POINT + b"../words/k1",
    POINT + b"%2e%2e",
    POINT + b"k1;a",
    POINT + b"k+1",
    POINT + b"k%",
    POINT + b"%ff",
    POINT + b"\xc3\xa9",
    POINT + b"k1.json",
    b"/state/stores//k1",
    b"//state/stores/words/k1",
    b"/state/stores/words%2Fk1",
    b"/state/./stores/words/k1",
    b"http://pod/state/stores/words/k1",
    POINT + b"a" * 2030,
    POINT + b"a" * 2029,
    POINT + b"a" * 5000,
)


def _asking(random: Random) -> list[Request]:
    """Requests that ask for something unusual, and are answered."""
    key = _key(random)
    plain = _get(random, POINT + key.encode(), 200, key)
    target = plain.line.split(b" ")[1]
    return [
        replace(plain, line=b"HEAD %b HTTP/1.1" % target),
        replace(plain, line=b"GET %b?timeout=5 HTTP/1.1" % target),
        replace(plain, headers=(b"Host: pod", b"If-None-Match: *"), status=304),
        replace(plain, headers=(b"Host: pod", b"Accept: text/html"), status=406),
        replace(plain, headers=(b"Host: pod", b"Accept: application/octet-stream"), status=406),
        replace(plain, headers=(b"Host: store.example.org",), status=403),
        replace(plain, headers=(b"Host: pod", b"Origin: http://example.org"), status=403),
        replace(plain, headers=(b"Host: pod", b"Content-Length: 0")),
        replace(plain, headers=(b"Host: pod", b"Content-Length: 5"), body=b"hello"),
        replace(plain, line=b"DELETE %b HTTP/1.1" % target, status=405),
        _post(random, b'{"keys":', 400),
        _post(random, b'{"keys":["k1",1]}', 400),
        _post(random, b"", 400),
        _chunked(random, key),
    ]


def _chunked(random: Random, key: str) -> Request:
    body = json.dumps({"keys": [key]}).encode()
    at = random.randrange(1, len(body))
    name = random.choice([b"", b";a=b", b';a="b"'])
    trailer = random.choice([b"", b"X-Trailer: 1\r\n"])
    pieces = b"".join(
        b"%x%b\r\n%b\r\n" % (len(piece), name, piece) for piece in (body[:at], body[at:])
    )
    plain = _post(random, b"", 200, key)
    headers = (*_headers(random), b"Transfer-Encoding: chunked")
    return replace(plain, headers=headers, body=b"%b0\r\n%b\r\n" % (pieces, trailer))


def _last(random: Random, *, is_closing: bool) -> Request:
    """The last requests: one that a body may swallow, and one that closes."""
    key = _key(random)
    if not is_closing:
        return _get(random, POINT + key.encode(), 200, key)
    headers = (b"Host: pod", b"Connection: close")
    return Request(b"GET %b HTTP/1.1" % (POINT + key.encode()), headers, b"", 200, (key,))


# --- Strange requests: limits, lengths, hidden requests


def _of_length(_: Random) -> list[Request]:
    """Lengths that parsers interpret differently."""
    body = b'{"keys":["k1"]}'
    return [
        Request(line, (b"Host: pod", *lines), body, is_whole=False)
        for line in (b"POST %b HTTP/1.1" % BATCH, b"GET %bk2 HTTP/1.1" % POINT)
        for lines in _LENGTHS
    ]


_LENGTHS: tuple[tuple[bytes, ...], ...] = (
    (b"Content-Length: 15", b"Content-Length: 15"),
    (b"Content-Length: 15", b"Content-Length: 9"),
    (b"Content-Length: 9", b"content-length: 15"),
    (b"Content-Length: 15, 15",),
    (b"Content-Length: +15",),
    (b"Content-Length: 0xf",),
    (b"Content-Length: -15",),
    (b"Content-Length: 015",),
    (b"Content-Length: 1_5",),
    (b"Content-Length: 15 5",),
    (b"Content-Length:",),
    (b"Content-Length: \xef\xbc\x95",),
    (b"Content-Length: 18446744073709551631",),
    (b"Content-Length : 15",),
    (b" Content-Length: 15",),
    (b"Content-Length: 9",),
    (b"Content-Length: 19",),
    (b"Content-Length: 15", b"Transfer-Encoding: chunked"),
    (b"Transfer-Encoding: chunked", b"Content-Length: 15"),
    (b"Transfer-Encoding: chunked",),
    (b"Transfer-Encoding: chunked, chunked",),
    (b"Transfer-Encoding: identity",),
    (b"Transfer-Encoding: xchunked",),
    (b"Transfer-Encoding : chunked",),
    (b"Transfer-Encoding:\x0bchunked",),
    (b"Transfer-Encoding: chunked", b"Transfer-Encoding: identity"),
    (b"X-A: b", b" Transfer-Encoding: chunked"),
    (b"X-A: b\nContent-Length: 15",),
    (b"X-A: b\rContent-Length: 15",),
    (b"X-A: b\x00c", b"Content-Length: 15"),
    (b"Content_Length: 15",),
    (b"Content-Length: 15", b"Content-Encoding: gzip"),
)


def _of_chunks(_: Random) -> list[Request]:
    """Bodies with invalid chunks of the transfer encoding."""
    headers = (b"Host: pod", b"Transfer-Encoding: chunked")
    line = b"POST %b HTTP/1.1" % BATCH
    return [Request(line, headers, body, is_whole=False) for body in _CHUNKS]


_CHUNKS = (
    b"+f\r\n{}\r\n0\r\n\r\n",
    b"0x2\r\n{}\r\n0\r\n\r\n",
    b"2 \r\n{}\r\n0\r\n\r\n",
    b"2\n{}\n0\n\n",
    b"2\r\n{}0\r\n\r\n",
    b"-1\r\n{}\r\n0\r\n\r\n",
    b"2;\n\r\n{}\r\n0\r\n\r\n",
    b"fffffffffffffffff\r\n{}\r\n0\r\n\r\n",
    b"\r\n2\r\n{}\r\n0\r\n\r\n",
    b"2\r\n{}\r\n0\r\nContent-Length: 3\r\n\r\n",
)


def _of_line(_: Random) -> list[Request]:
    """Request lines and line ends that parsers interpret differently."""
    line = b"GET %bk3 HTTP/1.1" % POINT
    spelled = (
        line.replace(b"GET", b"get"),
        line.replace(b"GET ", b"GET  "),
        line.replace(b" HTTP", b"\tHTTP"),
        line.replace(b"/1.1", b"/1.2"),
        line.replace(b"/1.1", b"/2.0"),
        line.replace(b"/1.1", b"/1.1 "),
        line.replace(b" HTTP/1.1", b""),
        line + b"\nHost: pod",
        b"\r\n" + line,
        b" " + line,
        b"\x00" + line,
        line.replace(b"k3", b"k 3"),
        line.replace(b"k3", b"k3\nX: y"),
        b"\x16\x03\x01\x02\x00\x01",
        b"PRI * HTTP/2.0\r\n\r\nSM",
    )
    host = (b"Host: pod",)
    return [Request(one, host, is_whole=False, takes_more=False) for one in spelled]


def _hidden(random: Random) -> list[Request]:
    """A request as the body of another one, and as the value of a header."""
    body = _get(random, POINT + b"k4").data()
    sized = (b"Host: pod", b"Content-Length: %d" % len(body))
    value = b"GET %bk6 HTTP/1.1\r\nHost: pod" % POINT
    point = b"GET %bk5 HTTP/1.1" % POINT
    in_head = Request(point, (b"X-Other: " + value,), b"", 200, ("k5",), cuts=(value,))
    return [
        Request(b"POST %b HTTP/1.1" % BATCH, sized, body, 400, cuts=(body,)),
        Request(point, sized, body, 200, ("k5",), cuts=(body,)),
        *[in_head] * 4,  # The bytes before it matter, too.
    ]


def _of_limits(_: Random) -> list[Request]:
    """As many headers and bytes as the limits allow, and more."""
    host = b"Host: pod"
    found = []
    for count in (HEADERS_MAX - 1, HEADERS_MAX, HEADERS_MAX + 1, 2 * HEADERS_MAX):
        headers = (host, *(b"X-%d: y" % number for number in range(count - 1)))
        found.append(_limited(headers, 200 if count <= HEADERS_MAX else 431))
    for over in (-2048, -600, 600, 8192):
        part = (HEAD_BYTES_MAX + over) // 4
        headers = (host, *(b"X-%d: %b" % (number, b"y" * part) for number in range(4)))
        found.append(_limited(headers, 200 if over < 0 else 431))
    return found


def _limited(headers: tuple[bytes, ...], status: int) -> Request:
    keys = ("k8",) if status == 200 else ()
    line = b"GET %bk8 HTTP/1.1" % POINT
    return Request(line, headers, b"", status, keys, is_whole=status == 200, takes_more=False)


def _closing(random: Random) -> list[Request]:
    """The last request that is answered on its connection."""
    key = _key(random)
    plain = _get(random, POINT + key.encode(), 200, key)
    long = b'{"keys":["%b"]}' % (b"a" * BODY_BYTES_MAX)
    old = plain.line.replace(b"/1.1", b"/1.0")
    return [
        replace(plain, headers=(b"Host: pod", b"Connection: close"), is_whole=False),
        replace(plain, headers=(b"Connection: Close", b"Host: pod"), is_whole=False),
        replace(plain, line=old, is_whole=False),
        replace(plain, line=old, headers=(b"Connection: keep-alive",)),
        replace(_post(random, long, 413), is_whole=False),
    ]


_STRANGE: tuple[Callable[[Random], list[Request]], ...] = (
    _spelled,
    _asking,
    _of_length,
    _of_chunks,
    _of_line,
    _hidden,
    _of_limits,
    _closing,
)
_STRIDE = 59
