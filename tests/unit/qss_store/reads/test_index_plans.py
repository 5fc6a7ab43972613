"""The plan of an IndexQuery, and the parsing of an answer's line."""

from typing import Any

import pytest

from qss_core.errors import MalformedBytesError, MalformedCursorError, UnknownQueryTypeError
from qss_core.model import PartitionId, Sequence
from qss_core.queries.types import IndexQuery, Order
from qss_store.reads.codec import Codec, codec_of
from qss_store.reads.encode.rows_for_pods import row_key_of_line
from qss_store.reads.plans.indexes import IndexPlan, plan_index_query
from qss_store.reads.scans.cursors import Piece, decode_cursor, encode_cursor
from qss_store.runtime.plugins import Extensions
from qss_store.storage.index_keys import indexing_of
from qss_testing.pods.stores import make_definition
from qss_testing.reference.own_stores import BY_VALUE, NEXT_BY_VALUE, by_value


class Typed:
    """One index of each type."""

    version = 1

    def __init__(self, options: Any, store: Any) -> None:
        self.indexes = {"by-x": options["serde"]}

    def index_keys(self, key: Any, value: Any) -> list[tuple[str, Any]]:
        """No row has an index key."""
        return []


def codec(extensions: Extensions = BY_VALUE, **members: Any) -> Codec:
    definition = by_value(3, **members)
    return codec_of(definition, indexing_of(definition, extensions))


def plan(index: str = "by-value", of: Codec | None = None, **members: Any) -> IndexPlan:
    return plan_index_query(IndexQuery(index=index, **members), of or codec())


def test_bounds_are_those_of_the_index() -> None:
    assert (plan().lower, plan().upper) == (b"\x00", b"\x01")
    assert (plan("by-first").lower, plan("by-first").upper) == (b"\x01", b"\x02")
    asked = plan(lower="a", upper="b", order=Order.DESCENDING)
    assert (asked.lower, asked.upper) == (b"\x00a\x00\x00", b"\x00b\x00\x01")
    assert (asked.reverse, plan(order=Order.ANY).reverse) == (True, False)


def test_a_store_of_another_type_has_none() -> None:
    with pytest.raises(UnknownQueryTypeError, match="has no indexes"):
        plan(of=codec_of(make_definition()))


@pytest.mark.parametrize(
    ("serde", "shown", "value"),
    [
        ("string", b'"a\\u0000\\"b"', 'a\0"b'),
        ("int64", b"-5", -5),
        ("float32", b"0.1", 0.1),
        ("float64", b'"-Infinity"', "-Infinity"),
        ("float64", b"-0.0", -0.0),
        ("boolean", b"true", True),
        ("bytes", b'"AP8="', "AP8="),
        (
            "uuid",
            b'"6f8f2b0e-52f6-4c6f-8d5e-0b1c2d3e4f50"',
            "6f8f2b0e-52f6-4c6f-8d5e-0b1c2d3e4f50",
        ),
    ],
)
def test_the_row_of_a_line_is_found_again(serde: str, shown: bytes, value: Any) -> None:
    types = Extensions(stores={"ByValue": Typed})
    of = codec(types, custom_options=(("serde", serde),))
    asked = plan("by-x", of)
    line = b'{"key":"k\\u00e9","indexKey":%b,"value":"v"}' % shown
    row = row_key_of_line(line, asked, of)
    assert row == asked.index.head(value) + "ké".encode()
    data, key = asked.index.parts(row)
    assert (asked.index.serde.json_bytes(data), key) == (shown, "ké".encode())


def test_a_line_without_an_index_key_is_none_of_an_index() -> None:
    with pytest.raises(MalformedBytesError):
        row_key_of_line(b'{"key":"k","value":"v"}', plan(), codec())


def test_a_cursor_is_of_one_index_and_its_bounds() -> None:
    piece = Piece(PartitionId(1), b"\x00a\x00\x00k", Sequence(5))
    token = encode_cursor([piece], plan(), codec())
    assert token is not None
    assert decode_cursor(token, plan(), codec()) == (piece,)
    others = (plan("by-first"), plan(lower="a"), plan(upper="z"), plan(order=Order.DESCENDING))
    for other in others:
        with pytest.raises(MalformedCursorError, match="of another query"):
            decode_cursor(token, other, codec())
    # A pod with the type's next version continues the scan.
    following = codec(NEXT_BY_VALUE)
    assert decode_cursor(token, plan(of=following), following) == (piece,)
