"""Bytes that a store's serdes cannot read are refused when they are staged."""

import struct
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest

from qss_core.errors import MalformedRequestError
from qss_core.serdes.registry import serde_of
from qss_store.writes.row_validation import RowValidator, check_column

WHOLE: dict[str, Any] = {
    "bytes": b"\xff",
    "string": "text",
    "boolean": True,
    "uuid": UUID(int=5),
    "int16": 1,
    "int32": 1,
    "int64": 1,
    "float32": 1.5,
    "float64": 1.5,
    "json": {"a": [1, None]},
    "list<int32>": [1, None],
    "list<string>": ["x"],
}


@pytest.mark.parametrize("serde", WHOLE)
def test_what_the_serde_writes_is_taken(serde: str) -> None:
    column = pa.array([serde_of(serde).encode(WHOLE[serde]), None], pa.binary())
    check_column(column, serde_of(serde), "a value")
    check_column(column.slice(1), serde_of(serde), "a value")


@pytest.mark.parametrize(
    ("serde", "damaged"),
    [
        ("boolean", b"\x02"),
        ("boolean", b""),
        ("uuid", b"no uuid"),
        ("int16", b"\x00"),
        ("int32", struct.pack(">q", 1)),
        ("int64", b"1"),
        ("float32", b""),
        ("float64", b"1.5"),
        ("json", b"not json"),
        ("json", b'{"v":"\xff"}'),
        ("json", b"[NaN]"),
        ("json", b""),
        ("list<int32>", b"\x00"),
        ("list<json>", serde_of("list<bytes>").encode([b"not json"])),
    ],
)
def test_what_it_cannot_read_is_refused(serde: str, damaged: bytes) -> None:
    whole = serde_of(serde).encode(WHOLE.get(serde, []))
    column = pa.array([whole, None, damaged], pa.binary())
    with pytest.raises(MalformedRequestError, match=f"a key is no {serde}"):
        check_column(column, serde_of(serde), "a key")


@pytest.mark.parametrize("serde", ["bytes", "string"])
def test_texts_of_any_bytes_are_texts_as_in_java(serde: str) -> None:
    check_column(pa.array([b"\xff\xfe", b""], pa.binary()), serde_of(serde), "a key")


def rows_of(*values: bytes, timestamps: list[int | None] | None = None) -> pa.RecordBatch:
    keys = [b"k"] * len(values)
    columns = {"key": pa.array(keys, pa.binary()), "value": pa.array(values, pa.binary())}
    if timestamps is not None:
        columns["timestamp"] = pa.array(timestamps, pa.int64())
    return pa.RecordBatch.from_pydict(columns)


def test_a_timestamp_is_unknown_or_after_1970() -> None:
    checks = RowValidator(serde_of("string"), serde_of("bytes"))
    for fine in ([-1, 0], [None, 2**62]):
        checks.check(rows_of(b"1", b"2", timestamps=[*fine]))
    with pytest.raises(MalformedRequestError, match="not -5"):
        checks.check(rows_of(b"1", b"2", timestamps=[7, -5]))


@pytest.mark.parametrize(
    ("serde", "sizes", "shares"),
    [
        ("json", [1] * 5000, [2000, 2000, 1000]),
        ("json", [400_000, 400_000, 10], [1, 2]),
        ("list<int32>", [1] * 500, [200, 200, 100]),
        ("list<int32>", [10, 100_000, 10], [1, 1, 1]),
        ("bytes", [], []),
    ],
)
def test_rows_are_checked_in_pieces_of_a_turn(
    serde: str, sizes: list[int], shares: list[int]
) -> None:
    checks = RowValidator(serde_of("string"), serde_of(serde))
    pieces = list(checks.pieces(rows_of(*map(bytes, sizes))))
    assert [piece.num_rows for piece, _ in pieces] == shares
    assert all(share <= 1 or piece.num_rows == 1 for piece, share in pieces)
    assert all(share > 0 for _, share in pieces)
    assert sum(piece.num_rows for piece, _ in pieces) == len(sizes)
