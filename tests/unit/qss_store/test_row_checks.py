"""Bytes that a store's serdes cannot read are refused when they are staged."""

import struct
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest

from qss_core.errors import MalformedRequestError
from qss_core.serdes import serde_of
from qss_store.row_checks import check_column

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
