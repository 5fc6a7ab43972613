"""JSON values as columns of a given type."""

from datetime import UTC, date, datetime
from typing import Any

import pyarrow as pa
import pytest

from qss_core.errors import MalformedRequestError
from qss_spark.source.json_columns import parse_column

TIME = pa.timestamp("us", "UTC")


def parsed(kind: pa.DataType, *texts: str | None) -> list[Any]:
    keys = pa.chunked_array([[f"k{place}" for place in range(len(texts))]], pa.string())
    found = parse_column(pa.chunked_array([list(texts)], pa.string()), keys, kind)
    assert found.type == kind
    values: list[Any] = found.to_pylist()
    return values


@pytest.mark.parametrize(
    ("kind", "text", "expected"),
    [
        (pa.struct({"n": pa.int64()}), '{"n": 1, "more": 2}', {"n": 1}),
        (pa.struct({"n": pa.int64()}), "{}", {"n": None}),
        (pa.list_(pa.float64()), '[1, 2.5, null, "-Infinity"]', [1.0, 2.5, None, float("-inf")]),
        (pa.map_(pa.string(), pa.list_(pa.int32())), '{"a": [1]}', [("a", [1])]),
        (TIME, '"2026-01-01T00:00:00.000Z"', datetime(2026, 1, 1, tzinfo=UTC)),
        (pa.date32(), '"2026-01-01"', date(2026, 1, 1)),
        (pa.struct({"s": pa.string()}), '{"s": {"a": [1]}}', {"s": '{"a":[1]}'}),
        (pa.int16(), "null", None),
        (pa.bool_(), "true", True),
    ],
)
def test_a_value_becomes_what_the_type_says(kind: pa.DataType, text: str, expected: Any) -> None:
    assert parsed(kind, text, None) == [expected, None]


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (pa.int16(), "70000"),
        (pa.int64(), "1.5"),
        (pa.int64(), '"1"'),
        (pa.int64(), "true"),
        (pa.float64(), "true"),
        (pa.bool_(), "1"),
        (pa.struct({"n": pa.int64()}), "7"),
        (pa.struct({"n": pa.int64()}), '{"n": [1]}'),
        (pa.list_(pa.int64()), '{"a": 1}'),
        (TIME, '"soon"'),
        (TIME, "5"),
    ],
)
def test_a_value_of_another_type_is_refused_with_its_key(kind: pa.DataType, text: str) -> None:
    with pytest.raises(MalformedRequestError, match="value of key 'k1' is not of the given type"):
        parsed(kind, None, text)
