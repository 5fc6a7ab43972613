"""Row keys of Kafka Streams that stores do not use, and the bounds of Kafka's scans.

Time-ordered stores have a base row, `00`, whose key begins with the time, and an index row, `01`,
whose key begins with the key. A windowed key on a topic has no sequence.
"""

import struct

from qss_core.formats.timed_keys import (
    SEQUENCE_MAX,
    TIME_MAX,
    SessionKey,
    WindowKey,
    decode_session_key,
    decode_window_key,
    encode_session_key,
    encode_window_key,
)

_TIME = struct.Struct(">q")
_SEQUENCE = struct.Struct(">i")
_SESSION = struct.Struct(">qq")
_BASE, _INDEX = b"\x00", b"\x01"


def encode_topic_key(key: bytes, start: int) -> bytes:
    """A windowed key in the bytes of its serde on a topic."""
    return key + _TIME.pack(start)


def decode_topic_key(data: bytes) -> tuple[bytes, int]:
    """The record key and the window's start."""
    return data[: -_TIME.size], _TIME.unpack_from(data, len(data) - _TIME.size)[0]


def encode_time_first_window(key: WindowKey) -> bytes:
    """The base row of a time-ordered window store."""
    return _BASE + _TIME.pack(key.start) + key.key + _SEQUENCE.pack(key.sequence)


def decode_time_first_window(data: bytes) -> WindowKey:
    """The record key, the window's start and the sequence number."""
    assert data[:1] == _BASE
    (sequence,) = _SEQUENCE.unpack_from(data, len(data) - _SEQUENCE.size)
    return WindowKey(data[9 : -_SEQUENCE.size], _TIME.unpack_from(data, 1)[0], sequence)


def encode_key_first_window(key: WindowKey) -> bytes:
    """The index row of a time-ordered window store."""
    return _INDEX + encode_window_key(*key)


def decode_key_first_window(data: bytes) -> WindowKey:
    """The record key, the window's start and the sequence number."""
    assert data[:1] == _INDEX
    return decode_window_key(data[1:])


def encode_time_first_session(key: SessionKey) -> bytes:
    """The base row of a time-ordered session store."""
    return _BASE + _SESSION.pack(key.end, key.start) + key.key


def decode_time_first_session(data: bytes) -> SessionKey:
    """The record key, the session's start and its end."""
    assert data[:1] == _BASE
    end, start = _SESSION.unpack_from(data, 1)
    return SessionKey(data[1 + _SESSION.size :], start, end)


def encode_key_first_session(key: SessionKey) -> bytes:
    """The index row of a time-ordered session store."""
    return _INDEX + encode_session_key(*key)


def decode_key_first_session(data: bytes) -> SessionKey:
    """The record key, the session's start and its end."""
    assert data[:1] == _INDEX
    return decode_session_key(data[1:])


# --- Bounds: the first and the last row key that a fetch reads, both inclusive


def window_key_bounds(key: bytes, earliest: int, latest: int) -> tuple[bytes, bytes]:
    """The bounds of one key's windows with starts in [earliest, latest]; latest may be negative."""
    return (
        encode_window_key(key, max(earliest, 0)),
        key + _TIME.pack(latest) + _SEQUENCE.pack(SEQUENCE_MAX),
    )


def window_range_bounds(first: bytes, last: bytes, latest: int) -> tuple[bytes, bytes]:
    """The bounds of windows of a range of keys; the lower bound ignores times."""
    suffix = _TIME.pack(latest) + _SEQUENCE.pack(SEQUENCE_MAX)
    return encode_window_key(first, 0), _upper(last, suffix)


def session_key_bounds(key: bytes, earliest_end: int, latest_start: int) -> tuple[bytes, bytes]:
    """The bounds of one key's sessions with ends and starts within these bounds."""
    lower = key + _SESSION.pack(max(earliest_end, 0), 0)
    return lower, key + _SESSION.pack(TIME_MAX, latest_start)


def session_range_bounds(first: bytes, last: bytes, latest_start: int) -> tuple[bytes, bytes]:
    """The bounds of sessions of a range of keys."""
    return encode_session_key(first, 0, 0), _upper(last, _SESSION.pack(TIME_MAX, latest_start))


def _upper(key: bytes, suffix: bytes) -> bytes:
    """The key's longest prefix whose bytes after the first are not below the suffix's first."""
    end = next((at for at in range(1, len(key)) if key[at] < suffix[0]), len(key))
    return key[:end] + suffix
