"""The JSON of rows with times.

A row is `{"key": k, "windowStart": t, "windowEnd": t, "sequence": n, "value": v}` or `{"key": k,
"sessionStart": t, "sessionEnd": t, "value": v}`, with `timestamp` and `headers` if the query asks
for them, and `sequence` only if the store retains duplicates. A row without a timestamp gets the
time in its key. A version is `{"key": k, "validFrom": t, "validTo": t, "value": v}`; `validTo` is
null for the latest version.
"""

from collections.abc import Callable

from qss_core.formats.timed_keys import (
    STILL_VALID,
    decode_session_key,
    decode_version_key,
    decode_window_key,
    window_end,
)
from qss_core.formats.values import TIMESTAMP_UNKNOWN, splitter_of
from qss_core.model import StoreType
from qss_core.times import Times, time_writer
from qss_store.reads.codec import Codec, RowWriter, Shape, headers_json, make_row_writer
from qss_store.reads.plans.dispatch import RowsPlan
from qss_store.reads.plans.times import TimedPlan

# A row key -> the members of a row before its value, and the row's time.
_Head = Callable[[bytes], tuple[bytes, int]]


def make_timed_writer(codec: Codec, shape: Shape, times: Times) -> RowWriter:
    """Makes the function (row key, row bytes) -> JSON bytes of a window, a session or a version.

    The function raises MalformedBytesError for bytes of another serde or format.
    """
    head = _HEADS[codec.type](codec, times)
    shown = time_writer(times)
    split, value_json = splitter_of(codec.format), codec.value.json_bytes

    def write(row_key: bytes, row: bytes) -> bytes:
        start, time = head(row_key)
        block, timestamp, value = split(row)
        members = b'%b"value":%b' % (start, value_json(value))
        if shape.timestamp:
            if timestamp is None or timestamp == TIMESTAMP_UNKNOWN:
                timestamp = time
            members += b',"timestamp":%b' % shown(timestamp)
        if shape.headers:
            members += b',"headers":%b' % headers_json(block)
        return members + b"}"

    return write


def make_writer(codec: Codec, plan: RowsPlan) -> RowWriter:
    """Makes the function (row key, row bytes) -> JSON bytes of a row of the plan."""
    if isinstance(plan, TimedPlan):
        return make_timed_writer(codec, plan.shape, plan.times)
    return make_row_writer(codec, plan.shape)


def _window_head(codec: Codec, times: Times) -> _Head:
    key_json, shown, size = codec.key.json_bytes, time_writer(times), codec.window_size_ms
    has_sequence = codec.retain_duplicates

    def head(row_key: bytes) -> tuple[bytes, int]:
        key, start, sequence = decode_window_key(row_key)
        end = shown(window_end(start, size))
        members = b'{"key":%b,"windowStart":%b,"windowEnd":%b,' % (key_json(key), shown(start), end)
        return members + b'"sequence":%d,' % sequence if has_sequence else members, start

    return head


def _session_head(codec: Codec, times: Times) -> _Head:
    key_json, shown = codec.key.json_bytes, time_writer(times)

    def head(row_key: bytes) -> tuple[bytes, int]:
        key, start, end = decode_session_key(row_key)
        return (
            b'{"key":%b,"sessionStart":%b,"sessionEnd":%b,'
            % (key_json(key), shown(start), shown(end)),
            end,
        )

    return head


def _version_head(codec: Codec, times: Times) -> _Head:
    key_json, shown = codec.key.json_bytes, time_writer(times)

    def head(row_key: bytes) -> tuple[bytes, int]:
        key, start, end = decode_version_key(row_key)
        ends = b"null" if end == STILL_VALID else shown(end)
        return b'{"key":%b,"validFrom":%b,"validTo":%b,' % (key_json(key), shown(start), ends), end

    return head


_HEADS = {
    StoreType.WINDOW: _window_head,
    StoreType.SESSION: _session_head,
    StoreType.VERSIONED: _version_head,
}
