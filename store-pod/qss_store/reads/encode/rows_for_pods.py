"""Rows in JSON between two pods, and the row key of each.

A row in JSON gives its row key back, but for a few keys that are shown other than they are stored:
a `json` key with line breaks, a string that is no UTF-8, a UUID in upper case. A pod that asks
another one for its rows sends ROW_KEYS_HEADER. Then a line stands between the rows where it is
needed: `{"sequence": n}`, the state of the rows that follow, and `{"rowKey": base64}`, the row key
of the row that follows. Pods of versions without that header send rows alone.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
import numpy as np

from qss_core.errors import MalformedBytesError, StoreError
from qss_core.formats.timed_keys import (
    SESSION_SUFFIX_BYTES,
    STILL_VALID,
    VERSION_SUFFIX_BYTES,
    WINDOW_SUFFIX_BYTES,
    encode_session_key,
    encode_version_key,
    encode_window_key,
)
from qss_core.model import Sequence as StateSequence
from qss_core.model import StoreType
from qss_core.times import time_of_json
from qss_store.reads.codec import Codec
from qss_store.reads.encode.json import NdjsonRows
from qss_store.reads.plans.dispatch import RowsPlan
from qss_store.reads.plans.indexes import IndexPlan
from qss_store.reads.plans.keys import ScanPlan, key_of_json

ROW_KEYS_HEADER = "Queryable-State-Row-Keys"
# Their JSON always gives their bytes back.
_EXACT = frozenset({"bytes", "boolean", "int16", "int32", "int64"})
_FLOATS = {"float32": ">f4", "float64": ">f8"}
_SHOWN_UUID = re.compile(rb"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}").fullmatch
_SEQUENCE_MAX = 2**64 - 1  # The most that a cursor takes.
_SUFFIX_BYTES = {
    StoreType.KEY_VALUE: 0,
    StoreType.WINDOW: WINDOW_SUFFIX_BYTES,
    StoreType.SESSION: SESSION_SUFFIX_BYTES,
    StoreType.VERSIONED: VERSION_SUFFIX_BYTES,
}


class RowsForPod(NdjsonRows):
    """Encodes rows as lines for another pod, with the row keys that they do not give back."""

    def __init__(self, codec: Codec, plan: RowsPlan) -> None:
        super().__init__(codec, plan)
        self._codec = codec
        self._plan = plan

    def of_rows(self, row_keys: Sequence[bytes], rows: Sequence[bytes]) -> bytes:
        data = super().of_rows(row_keys, rows)
        if _are_given_back(row_keys, self._codec):
            return data
        return self.of_lines([*self._told(row_keys, data[:-1].split(b"\n"))])

    def of_own_lines(self, row_keys: Sequence[bytes], lines: Sequence[bytes]) -> bytes:
        # The look at many row keys knows no index keys.
        if not isinstance(self._plan, IndexPlan) and _are_given_back(row_keys, self._codec):
            return self.of_lines(lines)
        return self.of_lines([*self._told(row_keys, lines)])

    def begin(self, sequence: StateSequence) -> bytes:
        return self.of_lines([msgspec.json.encode(_Told(sequence=sequence))])

    def _told(self, row_keys: Sequence[bytes], lines: Sequence[bytes]) -> Iterable[bytes]:
        for row_key, line in zip(row_keys, lines, strict=True):
            try:
                is_given_back = row_key_of_line(line, self._plan, self._codec) == row_key
            except MalformedBytesError:
                is_given_back = False
            if not is_given_back:
                yield msgspec.json.encode(_Told(row_key=row_key))
            yield line


def _are_given_back(row_keys: Sequence[bytes], codec: Codec) -> bool:
    """Whether the JSON of all these rows gives their row keys back; False if that is not sure."""
    if codec.key.name in _EXACT:
        return True
    suffix = _SUFFIX_BYTES[codec.type]
    keys = [key[:-suffix] for key in row_keys] if suffix else row_keys
    if codec.key.name == "string":
        try:
            b"\n".join(keys).decode()  # No character of several bytes has this byte in it.
        except UnicodeDecodeError:
            return False
        return True
    if codec.key.name == "json":
        # A line break is shown as a space, and white space around a key is not part of a member.
        together = b"".join(keys)
        is_in_one_line = b"\n" not in together and b"\r" not in together
        return is_in_one_line and [*map(bytes.strip, keys)] == [*keys]
    if codec.key.name == "uuid":
        return None not in map(_SHOWN_UUID, keys)
    if codec.key.name in _FLOATS:  # A NaN is shown without its bits.
        numbers = np.frombuffer(b"".join(keys), _FLOATS[codec.key.name])
        return len(numbers) == len(keys) and not np.isnan(numbers).any()
    return False


# --- Back from a line


class _Told(msgspec.Struct, rename="camel", omit_defaults=True, forbid_unknown_fields=True):
    """A line between the rows that another pod sends; it has one of the members."""

    sequence: StateSequence | None = None
    row_key: bytes | None = None


class ToldLines:
    """Sorts the lines of another pod: rows, and what is told of the rows that follow."""

    def __init__(self) -> None:
        self.sequence: StateSequence | None = None
        self._next_key: bytes | None = None

    def rows(self, lines: Iterable[bytes], row_start: bytes) -> list[tuple[bytes, bytes | None]]:
        """The rows, each with its row key if a line told it. Raises MalformedBytesError."""
        found: list[tuple[bytes, bytes | None]] = []
        for line in lines:
            if line.startswith(row_start):
                found.append((line, self._next_key))
                self._next_key = None
            else:
                self._take(line)
        return found

    def _take(self, line: bytes) -> None:
        try:
            told = msgspec.json.decode(line, type=_Told)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise _no_row() from error
        # Each comes once, so that lines without rows have an end.
        match told.sequence, told.row_key:
            case int(), None if self.sequence is None and 0 <= told.sequence <= _SEQUENCE_MAX:
                self.sequence = told.sequence
            case None, bytes() if self._next_key is None:
                self._next_key = told.row_key
            case _:
                raise _no_row()


def _no_row() -> MalformedBytesError:
    return MalformedBytesError("the other pod answered with lines that are not rows")


class _Line(msgspec.Struct, rename="camel"):
    """The members of a line that its row key has."""

    key: msgspec.Raw
    index_key: Any = None
    window_start: int | str | None = None
    sequence: int = 0
    session_start: int | str | None = None
    session_end: int | str | None = None
    valid_from: int | str | None = None
    valid_to: int | str | None = None


def row_key_of_line(line: bytes, plan: RowsPlan, codec: Codec) -> bytes:
    """The row key that a row in JSON gives back. Raises MalformedBytesError."""
    try:
        row = msgspec.json.decode(line, type=_Line)
        if codec.key.name == "json":
            key = bytes(row.key)  # As stored: encoding it again could change spaces.
        else:
            key = key_of_json(msgspec.json.decode(row.key), codec)
        if isinstance(plan, ScanPlan):
            return key
        if isinstance(plan, IndexPlan):
            return plan.index.head(row.index_key) + key
        if plan.type is StoreType.WINDOW:
            start = time_of_json("windowStart", row.window_start)
            return encode_window_key(key, start, row.sequence)
        if plan.type is StoreType.VERSIONED:
            start = time_of_json("validFrom", row.valid_from)
            end = None if row.valid_to is None else time_of_json("validTo", row.valid_to)
            return encode_version_key(key, start, STILL_VALID if end is None else end)
        start = time_of_json("sessionStart", row.session_start)
        return encode_session_key(key, start, time_of_json("sessionEnd", row.session_end))
    except (msgspec.DecodeError, UnicodeDecodeError, StoreError) as error:
        raise MalformedBytesError("a pod answered with a row that has no key") from error
