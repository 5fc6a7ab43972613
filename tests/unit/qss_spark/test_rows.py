"""Many rows at once become the bytes that the store's serdes write for each row."""

import json
import math
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from qss_client.chunks.chunk import Slice, read_rows, slices_of
from qss_core.errors import MalformedRequestError, NullKeyError
from qss_core.model import Partitioner
from qss_core.partitioning import partition_of
from qss_core.serdes.registry import serde_of
from qss_spark.rows import Columns, RecordBatchEncoder, serialize
from qss_testing.pods.stores import make_definition

UUID = "6f8f2b0e-52f6-4c6f-8d5e-0b1c2d3e4f50"
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))

# Serde, the column's type in Spark, and values of it.
COLUMNS: list[tuple[str, pa.DataType, list[Any]]] = [
    ("bytes", pa.binary(), [b"", b"\x00\xff", b"a" * 300]),
    ("string", pa.string(), ["", "a", "naïve \U0001f600", "\x00"]),
    ("int16", pa.int16(), [0, -1, 2**15 - 1, -(2**15)]),
    ("int32", pa.int32(), [0, -1, 2**31 - 1, -(2**31)]),
    ("int64", pa.int64(), [0, -1, 2**63 - 1, -(2**63)]),
    ("float32", pa.float32(), [0.0, -0.0, 1.5, math.inf, -math.inf]),
    ("float64", pa.float64(), [0.0, -0.0, 0.1, math.inf, -math.inf]),
    ("boolean", pa.bool_(), [True, False]),
    ("uuid", pa.string(), [UUID, "00000000-0000-0000-0000-000000000000"]),
    ("json", pa.string(), ['{"a": [1, null]}', "7", '"x"']),
    ("list<int32>", pa.list_(pa.int32()), [[], [1, None, -3]]),
    ("list<string>", pa.list_(pa.string()), [["", None, "b"], []]),
    ("list<uuid>", pa.list_(pa.string()), [[UUID]]),
    ("list<boolean>", pa.list_(pa.bool_()), [[True, False]]),
    ("list<float64>", pa.list_(pa.float64()), [[0.1, math.inf]]),
    ("list<list<int64>>", pa.list_(pa.list_(pa.int64())), [[[1], [], [2, 3]]]),
]

MAP = pa.map_(pa.string(), pa.decimal128(10, 2))


def one_by_one(serde: str, values: list[Any]) -> list[bytes | None]:
    """The bytes that the serde writes for each value."""
    known = serde_of(serde)

    def encoded(value: Any) -> bytes:
        if serde == "json":
            return bytes(value.encode())
        if serde == "bytes":
            return known.encode(value)
        return known.encode(known.from_json(known.to_json(value) if serde != "uuid" else value))

    return [None if value is None else encoded(value) for value in values]


@pytest.mark.parametrize(("serde", "kind", "values"), COLUMNS, ids=[name for name, *_ in COLUMNS])
def test_a_column_is_written_as_the_serde_writes_each_value(
    serde: str, kind: pa.DataType, values: list[Any]
) -> None:
    values = [*values, None, *values]
    column = pa.array(values, kind)
    expected = one_by_one(serde, values) if not serde.startswith("list<uuid") else None
    written = serialize(column, serde).to_pylist()
    if expected is not None:
        assert written == expected
    for cut in (1, len(values) - 2):
        assert serialize(column.slice(cut), serde).to_pylist() == written[cut:]


def test_nan_is_written_as_kafka_writes_it() -> None:
    column = pa.array([math.nan], pa.float64())
    assert serialize(column, "float64").to_pylist() == [serde_of("float64").encode(math.nan)]
    listed = pa.array([[math.nan]], pa.list_(pa.float64()))
    assert serialize(listed, "list<float64>").to_pylist() == [
        serde_of("list<float64>").encode([math.nan])
    ]


def test_bytes_in_a_list_are_bytes() -> None:
    column = pa.array([[b"\x00", None, b"ab"]], pa.list_(pa.binary()))
    assert serialize(column, "list<bytes>").to_pylist() == [
        serde_of("list<bytes>").encode([b"\x00", None, b"ab"])
    ]
    nested = pa.array([[[b"\x00"], []]], pa.list_(pa.list_(pa.binary())))
    assert serialize(nested, "list<list<bytes>>").to_pylist() == [
        serde_of("list<list<bytes>>").encode([[b"\x00"], []])
    ]


def test_a_nested_column_becomes_json() -> None:
    column = pa.array([{"a": [1, None], "b": "x"}, None])
    assert [text and json.loads(text) for text in serialize(column, "json").to_pylist()] == [
        {"a": [1, None], "b": "x"},
        None,
    ]


def test_a_map_becomes_an_object_and_a_decimal_a_number() -> None:
    """Spark's `to_json` writes them in the same way for a StoreSink."""
    maps = pa.array([[("a", 1), ("b", None)], []], pa.map_(pa.string(), pa.int64()))
    assert serialize(maps, "json").to_pylist() == [b'{"a":1,"b":null}', b"{}"]
    inside = pa.array([{"m": [("a", Decimal("1.50"))]}], pa.struct([("m", MAP)]))
    assert serialize(inside, "json").to_pylist() == [b'{"m":{"a":1.50}}']


@pytest.mark.parametrize(
    ("serde", "column"),
    [
        ("int64", pa.array(["x"])),
        ("int16", pa.array([70_000], pa.int64())),
        ("int64", pa.array([1.5])),
        ("int64", pa.array([2.0])),
        ("int64", pa.array(["5"])),
        ("int32", pa.array([True])),
        ("float32", pa.array([1e300])),
        ("list<float32>", pa.array([[1.0], [-1e300]])),
        ("float64", pa.array(["1.5"])),
        ("string", pa.array([5])),
        ("bytes", pa.array([1])),
        ("string", pa.array([[1]])),
        ("uuid", pa.array(["no uuid"])),
        ("uuid", pa.array([b"0123456789abcdef"])),
        ("boolean", pa.array([1])),
        ("list<int32>", pa.array([[2**40]])),
        ("json", pa.array(["no json"])),
        ("json", pa.array(['{"a": NaN}'])),
    ],
    ids=str,
)
def test_a_column_of_another_type_is_refused(serde: str, column: pa.Array) -> None:
    with pytest.raises(MalformedRequestError):
        serialize(column, serde)


# --- Rows


def encode(rows: dict[str, pa.Array], columns: Columns | None = None, **members: Any) -> Any:
    """The slices of one batch of rows."""
    encoder = RecordBatchEncoder(make_definition(**members), columns or Columns())
    groups = list(encoder.slices([pa.RecordBatch.from_pydict(rows)]))
    assert len(groups) == 1
    return groups[0]


def rows_of(one: Slice) -> list[tuple[Any, ...]]:
    """Key, value, timestamp and headers of each row of a slice."""
    found: list[tuple[Any, ...]] = []
    for rows in read_rows(one.data, 1000):
        nothing = [None] * len(rows.keys)
        found += zip(
            rows.keys,
            rows.values,
            rows.timestamps or nothing,
            rows.headers or nothing,
            strict=True,
        )
    return found


def test_rows_go_to_the_partition_of_their_key_sorted_by_bytes() -> None:
    keys = [f"k{number}" for number in range(100, 0, -1)]
    slices = encode({"key": pa.array(keys), "value": pa.array(["1"] * 100)}, partitions=8)
    assert [one.partition for one in slices] == sorted({partition_of(k.encode(), 8) for k in keys})
    seen = []
    for one in slices:
        found = [row[0] for row in rows_of(one)]
        assert found == sorted(found)
        assert {partition_of(key, 8) for key in found} == {one.partition}
        assert one.records == len(found)
        seen += found
    assert sorted(seen) == sorted(key.encode() for key in keys)


def test_the_last_of_equal_keys_stays_the_last() -> None:
    values = [str(number) for number in range(50)]
    (one,) = encode({"key": pa.array(["a"] * 50), "value": pa.array(values)}, partitions=1)
    assert [row[1].decode() for row in rows_of(one)] == values


def test_equal_keys_of_two_batches_keep_the_batches_order() -> None:
    encoder = RecordBatchEncoder(make_definition(1), Columns())
    batches = [
        pa.RecordBatch.from_pydict({"key": pa.array(["b", "a"]), "value": pa.array([value, value])})
        for value in ("1", "2")
    ]
    ((one,),) = list(encoder.slices(batches))
    assert [row[:2] for row in rows_of(one)] == [
        (b"a", b"1"),
        (b"a", b"2"),
        (b"b", b"1"),
        (b"b", b"2"),
    ]


def test_a_null_value_stays_a_null() -> None:
    (one,) = encode({"key": pa.array(["a"]), "value": pa.array([None], pa.string())}, partitions=1)
    assert rows_of(one)[0][:2] == (b"a", None)


def test_several_columns_make_one_json() -> None:
    rows = {"word": pa.array(["a"]), "n": pa.array([3]), "m": pa.array([None], pa.float64())}
    columns = Columns(key=("word",), value=("n", "m"))
    (one,) = encode(rows, columns, partitions=1)
    assert json.loads(rows_of(one)[0][1]) == {"n": 3, "m": None}
    with pytest.raises(MalformedRequestError, match="several columns"):
        encode(rows, columns, value_serde="int64")


@pytest.mark.parametrize(
    "timestamps",
    [
        pa.array([datetime(2026, 1, 1, 0, 0, 0, 123_456, UTC)], pa.timestamp("us", "UTC")),
        pa.array([datetime(2026, 1, 1, 0, 0, 0, 123_456)], pa.timestamp("us")),  # noqa: DTZ001
        pa.array([1_767_225_600_123], pa.int64()),
    ],
    ids=["timestamp", "timestamp_ntz", "milliseconds"],
)
def test_a_timestamp_is_milliseconds(timestamps: pa.Array) -> None:
    rows = {"key": pa.array(["a"]), "value": pa.array(["1"]), "timestamp": timestamps}
    (one,) = encode(rows, partitions=1)
    assert rows_of(one)[0][2] == 1_767_225_600_123


def test_headers_are_kafkas_array() -> None:
    given = pa.array([[{"key": "h", "value": b"1"}, {"key": "h", "value": None}], None], HEADERS)
    rows = {"key": pa.array(["a", "b"]), "value": pa.array(["1", "2"]), "headers": given}
    (one,) = encode(rows, partitions=1)
    assert [row[3] for row in rows_of(one)] == [(("h", b"1"), ("h", None)), ()]


def test_columns_of_another_type_beside_key_and_value_are_refused_by_name() -> None:
    rows = {"key": pa.array(["a"]), "value": pa.array(["1"])}
    with pytest.raises(
        MalformedRequestError, match=r'column "timestamp" has type string .*cast\("timestamp"\)'
    ):
        encode({**rows, "timestamp": pa.array(["yesterday"])})
    with pytest.raises(MalformedRequestError, match='column "headers" has type string'):
        encode({**rows, "headers": pa.array(["h"])})
    with pytest.raises(MalformedRequestError, match='column "partition" has type string'):
        encode({**rows, "partition": pa.array(["x"])}, partitioner=Partitioner.EXPLICIT)


def test_a_column_that_is_the_value_is_nothing_else_besides() -> None:
    rows = {"key": pa.array(["a"]), "timestamp": pa.array(["noon"])}
    columns = Columns(value=("timestamp",))
    (one,) = encode(rows, columns, partitions=1, value_serde="string")
    assert rows_of(one) == [(b"a", b"noon", None, None)]


def test_a_null_key_is_refused_with_the_count() -> None:
    rows = {"key": pa.array(["a", None, None]), "value": pa.array(["1", "2", "3"])}
    with pytest.raises(NullKeyError, match="2 rows have no key"):
        encode(rows)


def test_missing_columns_are_named() -> None:
    encoder = RecordBatchEncoder(make_definition(), Columns(key=("word",), value=("n",)))
    with pytest.raises(MalformedRequestError, match=r"\['n', 'word'\] are missing from \['x'\]"):
        encoder.check(["x"])
    explicit = RecordBatchEncoder(make_definition(partitioner=Partitioner.EXPLICIT), Columns())
    with pytest.raises(MalformedRequestError, match=r"\['partition'\] are missing"):
        explicit.check(["key", "value"])


def test_an_explicit_partition_is_the_rows_own() -> None:
    rows = {
        "key": pa.array(["a", "b", "c"]),
        "value": pa.array(["1", "2", "3"]),
        "partition": pa.array([3, 0, 3], pa.int32()),
    }
    slices = encode(rows, partitioner=Partitioner.EXPLICIT)
    assert [(one.partition, [row[0] for row in rows_of(one)]) for one in slices] == [
        (0, [b"b"]),
        (3, [b"a", b"c"]),
    ]


@pytest.mark.parametrize("partition", [-1, 4, None])
def test_a_partition_outside_the_store_is_refused(partition: int | None) -> None:
    rows = {
        "key": pa.array(["a"]),
        "value": pa.array(["1"]),
        "partition": pa.array([partition], pa.int32()),
    }
    with pytest.raises(MalformedRequestError, match="numbers from 0 to 3"):
        encode(rows, partitioner=Partitioner.EXPLICIT)


def test_nothing_is_made_of_no_rows() -> None:
    encoder = RecordBatchEncoder(make_definition(), Columns())
    empty = pa.RecordBatch.from_pydict({"key": pa.array([], pa.string()), "value": pa.array([])})
    assert list(encoder.slices([])) == []
    assert list(encoder.slices([empty, empty])) == []


def test_a_task_stages_before_it_has_gathered_too_much() -> None:
    value = json.dumps("x" * 6_000_000)
    encoder = RecordBatchEncoder(make_definition(1), Columns())
    batch = pa.RecordBatch.from_pydict({"key": pa.array(["a"]), "value": pa.array([value])})
    groups = list(encoder.slices(batch for _ in range(13)))
    assert [sum(one.records for one in group) for group in groups] == [6, 6, 1]


def test_a_split_takes_a_single_row() -> None:
    batch = pa.RecordBatch.from_pydict(
        {
            "partition": pa.array([2], pa.int32()),
            "key": pa.array([b"a"], pa.binary()),
            "value": pa.array([b"1"], pa.binary()),
        }
    )
    (one,) = slices_of([batch])
    assert (one.partition, one.records, rows_of(one)[0][:2]) == (2, 1, (b"a", b"1"))


def test_names_of_columns_are_read_from_an_option() -> None:
    assert Columns.parse(None, None) == Columns()
    assert Columns.parse(" a , b,", "c") == Columns(key=("a", "b"), value=("c",))


def test_a_column_that_is_named_twice_is_refused() -> None:
    with pytest.raises(MalformedRequestError, match="valueColumns has the column 'v' twice"):
        Columns(value=("v", "w", "v"))
    with pytest.raises(MalformedRequestError, match="keyColumns has the column 'k' twice"):
        Columns.parse("k, k", None)
