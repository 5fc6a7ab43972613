"""Messages about columns whose type or value the store does not take."""

import re

import pyarrow as pa
import pytest
from pyspark.sql.types import ArrayType, TimestampType

from qss_core.errors import MalformedRequestError
from qss_spark.column_types import arrow_type, headers_of
from qss_spark.rows import serialize

STRING_MAP = pa.map_(pa.string(), pa.int64())


@pytest.mark.parametrize(
    ("column", "serde", "says"),
    [
        (
            pa.array(["5"]),
            "int64",
            'column "n" has type string and cannot be stored as int64: cast it, e.g. '
            'F.col("n").cast("long")',
        ),
        (pa.array([5]), "string", "has type bigint and cannot be stored as string: cast it, e.g."),
        (pa.array([1]), "boolean", 'has type bigint .* boolean: .*cast\\("boolean"\\)'),
        (pa.array([2.0]), "int32", 'has type double .* int32: .*cast\\("int"\\)'),
        (pa.array([b"0123456789abcdef"]), "uuid", 'has type binary .* uuid: .*cast\\("string"\\)'),
        (pa.array([["5"]]), "list<int32>", 'has type array<string> .*cast\\("array<int>"\\)'),
        (
            pa.array([5]),
            "list<int32>",
            r'has type bigint .*: e.g. F.array\(F.col\("n"\).cast\("int"\)\)',
        ),
        (pa.array([2**40]), "int32", 'column "n" has a value that cannot be stored as int32: '),
        (pa.array(["no uuid"]), "uuid", 'column "n" has a value that cannot be stored as uuid: '),
        (pa.array([1e300]), "float32", 'column "n" has a number that is larger than float32'),
        (pa.array(["word"]), "json", "column \"n\" has a text that is not JSON: 'word' .*to_json"),
    ],
    ids=str,
)
def test_the_column_its_type_and_the_cast_are_named(
    column: pa.Array, serde: str, says: str
) -> None:
    pattern = says.replace('col("n").cast("long")', r'col\("n"\)\.cast\("long"\)')
    with pytest.raises(MalformedRequestError, match=pattern):
        serialize(column, serde, "n")


@pytest.mark.parametrize(
    ("column", "serde", "mended"),
    [
        (pa.array([["5"]]), "int64", 'F.explode("n") makes a row of each element'),
        (pa.array([[["5"]]]), "list<int64>", 'F.explode("n") makes a row of each element'),
        (pa.array([[5]]), "string", 'F.to_json("n") makes a text, for a store of string or json'),
        (pa.array([{"a": 5}]), "int64", 'F.col("n.a") takes one field'),
        (pa.array([{"a": 5}]), "list<int64>", 'F.col("n.a") takes one field'),
        (pa.array([[("a", 5)]], STRING_MAP), "int64", 'F.map_values("n") makes an array'),
        (pa.array([[{"a": 5}]]), "list<int64>", 'F.transform("n", '),
        (pa.array([[5]]), "list<list<int64>>", 'F.array(F.col("n").cast("array<long>"))'),
        (pa.array([5]), "bytes", 'F.col("n").cast("string").cast("binary")'),
    ],
    ids=str,
)
def test_what_a_cast_cannot_mend_has_other_advice(
    column: pa.Array, serde: str, mended: str
) -> None:
    with pytest.raises(MalformedRequestError, match=re.escape(mended)) as refused:
        serialize(column, serde, "n")
    assert "cast it" not in refused.value.message or "bytes" in serde


@pytest.mark.parametrize(
    ("column", "mended"),
    [
        (pa.array(["x"]), 'F.array(F.struct(F.lit("name").alias("key"), F.col("headers")'),
        (pa.array([["x"]]), 'F.array(F.struct(F.lit("name").alias("key"), F.col("headers")'),
        (pa.array([[("a", 5)]], STRING_MAP), 'F.col("headers").cast("map<string,string>")'),
        (pa.array([[{"key": "a", "value": 5}]]), 'cast("array<struct<key:string,value:string>>")'),
    ],
    ids=str,
)
def test_headers_of_another_type_have_advice(column: pa.Array, mended: str) -> None:
    with pytest.raises(MalformedRequestError, match=re.escape(mended)) as refused:
        headers_of(column)
    assert "cannot be stored as headers: " in refused.value.message


def test_headers_of_a_map_and_of_structs_with_texts_are_taken() -> None:
    of_map = pa.array([[("a", "b")]], pa.map_(pa.string(), pa.string()))
    of_structs = pa.array([[{"key": "a", "value": "b"}]])
    assert headers_of(of_map) == headers_of(of_structs)
    assert headers_of(of_map).to_pylist() == [[{"key": "a", "value": b"b"}]]


def test_a_column_of_timestamps_has_a_type() -> None:
    assert arrow_type(TimestampType()) == pa.timestamp("us", "UTC")
    assert arrow_type(ArrayType(TimestampType())) == pa.list_(pa.timestamp("us", "UTC"))
