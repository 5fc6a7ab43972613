"""Messages about columns whose type or value the store does not take."""

import pyarrow as pa
import pytest

from qss_core.errors import MalformedRequestError
from qss_spark.rows import serialize


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
        (pa.array([5]), "list<int32>", 'has type bigint .*cast\\("array<int>"\\)'),
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
