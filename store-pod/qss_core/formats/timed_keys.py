"""The row keys of rows with times; those of windows and sessions equal Kafka's bytes.

A Window row's key: key | start (8) | sequence (4); the sequence is 0 unless the store retains
duplicates. A Session row's key: key | end (8) | start (8). The key of a replaced version in a
Versioned store: key | valid to (8) | valid from (8). All integers are big-endian. Rows of keys of
different lengths may lie between the rows of one key: a reader compares the decoded key.
"""

import struct
from typing import NamedTuple

from qss_core.errors import MalformedBytesError, MalformedRequestError

TIME_MAX = 2**63 - 1
SEQUENCE_MAX = 2**31 - 1

_WINDOW = struct.Struct(">qi")
_SESSION = struct.Struct(">qq")
WINDOW_SUFFIX_BYTES = _WINDOW.size
SESSION_SUFFIX_BYTES = _SESSION.size
VERSION_SUFFIX_BYTES = _SESSION.size
STILL_VALID = TIME_MAX  # The end of the latest version; no put has this time.


class WindowKey(NamedTuple):
    """A row of a Window store; `start` is in milliseconds since the epoch."""

    key: bytes
    start: int
    sequence: int


class SessionKey(NamedTuple):
    """A row of a Session store; both times are inclusive milliseconds since the epoch."""

    key: bytes
    start: int
    end: int


class VersionKey(NamedTuple):
    """A version, valid from `valid_from` until just before `valid_to`, in milliseconds.

    If both times are equal, it is the mark of a tombstone.
    """

    key: bytes
    valid_from: int
    valid_to: int


def encode_window_key(key: bytes, start: int, sequence: int = 0) -> bytes:
    """The row key of a window. Raises MalformedRequestError for a time before 1970."""
    if not 0 <= start <= TIME_MAX:
        raise _time_refused("a window starts", start)
    return key + _WINDOW.pack(start, sequence)


def decode_window_key(row_key: bytes) -> WindowKey:
    """Decodes a row key. Raises MalformedBytesError."""
    at = len(row_key) - WINDOW_SUFFIX_BYTES
    if at < 0:
        raise MalformedBytesError(f"a window's row key has {len(row_key)} bytes, 12 at least")
    start, sequence = _WINDOW.unpack_from(row_key, at)
    return WindowKey(row_key[:at], start, sequence)


def window_end(start: int, size_ms: int) -> int:
    """The end of a window, exclusive; at most TIME_MAX."""
    return min(start + size_ms, TIME_MAX)


def encode_session_key(key: bytes, start: int, end: int) -> bytes:
    """The row key of a session. Raises MalformedRequestError for invalid times."""
    if not 0 <= start <= TIME_MAX:
        raise _time_refused("a session starts", start)
    if not start <= end <= TIME_MAX:
        raise MalformedRequestError(f"a session from {start} ends at {end}: not before its start")
    return key + _SESSION.pack(end, start)


def decode_session_key(row_key: bytes) -> SessionKey:
    """Decodes a row key. Raises MalformedBytesError."""
    at = len(row_key) - SESSION_SUFFIX_BYTES
    if at < 0:
        raise MalformedBytesError(f"a session's row key has {len(row_key)} bytes, 16 at least")
    end, start = _SESSION.unpack_from(row_key, at)
    return SessionKey(row_key[:at], start, end)


def encode_version_key(key: bytes, valid_from: int, valid_to: int) -> bytes:
    return key + _SESSION.pack(valid_to, valid_from)


def decode_version_key(row_key: bytes) -> VersionKey:
    """Decodes a row key. Raises MalformedBytesError."""
    at = len(row_key) - VERSION_SUFFIX_BYTES
    if at < 0:
        raise MalformedBytesError(f"a version's row key has {len(row_key)} bytes, 16 at least")
    valid_to, valid_from = _SESSION.unpack_from(row_key, at)
    return VersionKey(row_key[:at], valid_from, valid_to)


def _time_refused(what: str, time: int) -> MalformedRequestError:
    return MalformedRequestError(
        f"{what} at {time}: times are milliseconds since 1970, from 0 to 2^63 - 1"
    )
