"""Bugs of the fast path and of its connections, of one line each, that a test has to find.

`make planted` runs the short fuzz, or the named test, with each of them in turn.
"""

from qss_testing.plants.planted import Plant, run

_HTTP = "store-pod/qss_store/http"
_FUZZ = "tests/integration/reads/test_fast_path_fuzz.py"
_RANGES = "tests/integration/reads/test_fast_ranges.py"
_CONNECTION = "tests/unit/qss_store/http/test_connection.py"


def _damage(name: str, file: str, whole: str, damaged: str, test: str = _FUZZ) -> Plant:
    return Plant.of(name, f"{_HTTP}/{file}", whole, damaged, test)


PLANTS = (
    _damage(
        "the last one of two lengths is believed",
        "query/fast_path.py",
        "if not colon or not known or name in found or not value",
        "if not colon or not known or not value",
    ),
    _damage(
        "what follows a body is forgotten",
        "query/fast_path.py",
        "if head is None or len(data) - body_at != head.body_bytes:",
        "if head is None or len(data) - body_at < head.body_bytes:",
    ),
    _damage(
        "the body of a GET is taken for a request",
        "query/fast_path.py",
        "if head is None or head.body_bytes:",
        "if head is None:",
    ),
    _damage(
        "a foreign host is answered",
        "query/fast_path.py",
        "if head is not None and self._callers and not",
        "if False and not",
    ),
    _damage(
        "a connection is kept that was to be closed",
        "query/fast_path.py",
        'found.get(b"connection", b"keep-alive").lower() == b"keep-alive"',
        "True",
    ),
    _damage(
        "a dot is a key",
        "query/fast_path.py",
        'z0123456789-_~"\n',
        'z0123456789-_~."\n',
    ),
    _damage(
        "an answer has the head of an older state",
        "query/fast_path.py",
        "if last is None or last[0] is not reading.view.token:",
        "if last is None:",
    ),
    _damage(
        "any media type is JSON",
        "query/fast_path.py",
        'found.get(b"accept", JSON.encode()) in _ANY_OR_JSON',
        "True",
    ),
    _damage(
        "a request within a head is answered",
        "connection/protocol.py",
        "frame is not None and self._is_parsed and self._is_idle():",
        "frame is not None and self._is_idle():",
    ),
    _damage(
        "a request overtakes the one before it",
        "connection/protocol.py",
        "frame is not None and self._is_parsed and self._is_idle():",
        "frame is not None and self._is_parsed:",
    ),
    _damage(
        "a handler that works is taken for idle",
        "connection/protocol.py",
        "return self._request_count == 0 if waiter is None else not waiter.done()",
        "return waiter is None or not waiter.done()",
    ),
    _damage(
        "the beginning of a head is taken for its end",
        "connection/protocol.py",
        'self._is_parsed = has_new and data.endswith(b"\\r\\n\\r\\n")',
        "self._is_parsed = has_new",
    ),
    _damage(
        "a large head that comes at once is read",
        "connection/protocol.py",
        "self.head_bytes_max = self._limits.head_bytes_max\n",
        "pass\n",
    ),
    _damage(
        "what comes behind a refused head is parsed",
        "connection/protocol.py",
        "        self._is_refused = True\n",
        "        self._is_refused = False\n",
    ),
    _damage(
        "too many headers are another refusal",
        "connection/protocol.py",
        "if isinstance(exc, LineTooLong) or _has_too_many_headers(exc):",
        "if isinstance(exc, LineTooLong):",
    ),
    _damage(
        "the refusal of a head overtakes an answer",
        "connection/protocol.py",
        "self.transport is None or not self._handler_waits():",
        "self.transport is None or self._current_request is not None or self._messages:",
        f"{_CONNECTION}"
        "::test_the_refusal_of_a_head_is_not_sent_before_the_answer_of_an_earlier_request",
    ),
    _damage(
        "a connection waits whose request is under way",
        "connection/protocol.py",
        "self._paused or not (self._handler_waits() or self._handler_has_ended()):",
        "self._paused or self._current_request is not None or self._messages:",
        f"{_CONNECTION}::test_a_connection_whose_request_is_not_answered_yet_does_not_wait",
    ),
    _damage(
        "a connection whose handler has ended never waits",
        "connection/protocol.py",
        "(self._handler_waits() or self._handler_has_ended())",
        "self._handler_waits()",
        f"{_CONNECTION}"
        "::test_a_connection_whose_handler_has_ended_waits_when_its_client_takes_no_rest",
    ),
    _damage(
        "requests behind a full queue are not noted",
        "connection/protocol.py",
        "        if data or has_new:\n",
        "        if data:\n",
        f"{_CONNECTION}"
        "::test_a_body_behind_a_full_queue_is_not_taken_for_a_head_while_a_handler_works",
    ),
    _damage(
        "requests behind a declined upgrade are not noted",
        "connection/protocol.py",
        "        self._note_last_body()  # A declined",
        "        # A declined",
        "tests/integration/http/test_connections.py"
        "::test_the_body_of_a_request_that_aiohttp_kept_is_not_taken_for_a_head",
    ),
    _damage(
        "the server says its name",
        "server.py",
        "    response.headers.popall(hdrs.SERVER, None)\n",
        "    pass\n",
    ),
    _damage(
        "nobody asks the fast path",
        "server.py",
        "limits, tls, app.get(FAST_PATH))",
        "limits, tls, None)",
    ),
    _damage(
        "a page at once forgets the partitions behind it",
        "query/fast_rows.py",
        "rest = (*cut, *pieces[index + 1 :])",
        "rest = cut",
        _RANGES,
    ),
    _damage(
        "rows at once end where a page ends",
        "query/fast_rows.py",
        "if found is None or count > at_once or (count < left and not found.is_over):",
        "if found is None or count > at_once:",
        _RANGES,
    ),
    Plant.of(
        "JSON texts are JSON only together",
        "store-pod/qss_store/reads/encode/objects.py",
        "return found if list(map(bytes, found)) == list(data) else None",
        "return found",
        "tests/unit/qss_store/reads/test_shown_objects.py",
    ),
)


if __name__ == "__main__":
    run(PLANTS)
