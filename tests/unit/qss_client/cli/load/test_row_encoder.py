"""Rows of files become the bytes of the store's serdes, and lines that do not fit are named."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import msgspec
import pytest

from qss_client.chunks.chunk import Slice, read_batches
from qss_client.cli.load.input_rows import InputRow, Text
from qss_client.cli.load.row_encoder import Columns, InputRowEncoder
from qss_core.errors import MalformedRequestError
from qss_core.model import Partitioner, StoreDefinition, StoreType
from qss_core.partitioning import partition_of
from qss_core.serdes.registry import serde_of
from qss_testing.pods.stores import make_definition

Cells = Mapping[str, Any]


def raw(text: str) -> msgspec.Raw:
    return msgspec.Raw(text.encode())


def encoded(
    definition: StoreDefinition, rows: Sequence[Cells], columns: Columns | None = None
) -> list[dict[str, Any]]:
    """The rows as the store gets them, in the order of their keys."""
    names = tuple(rows[0])
    encoder = InputRowEncoder(definition, columns or Columns(), names, "line")
    groups = encoder.groups(InputRow(number, row) for number, row in enumerate(rows, start=2))
    return sorted(
        (
            {**row, "partition": one.partition}
            for group in groups
            for one in group
            for batch in read_batches(one.data, 1000)
            for row in batch.to_pylist()
        ),
        key=lambda row: (row["key"], row["partition"]),
    )


def value_of(serde: str, cell: Any) -> bytes | None:
    (row,) = encoded(make_definition(4, value_serde=serde), [{"key": Text("a"), "value": cell}])
    value: bytes | None = row["value"]
    return value


@pytest.mark.parametrize(
    ("serde", "text", "value"),
    [
        ("string", "12", "12"),
        ("int64", "12", 12),
        ("float64", "1.5", 1.5),
        ("float32", "NaN", "NaN"),
        ("boolean", "true", True),
        ("bytes", "YWI=", "YWI="),
        ("uuid", "00000000-0000-0000-0000-00000000000A", "00000000-0000-0000-0000-00000000000a"),
        ("list<int64>", "[1,2]", [1, 2]),
    ],
)
def test_a_text_is_read_as_the_type_of_the_serde(serde: str, text: str, value: Any) -> None:
    known = serde_of(serde)
    expected = known.encode(known.from_json(value))
    assert value_of(serde, Text(text)) == expected
    assert value_of(serde, raw(msgspec.json.encode(value).decode())) == expected


def test_json_is_stored_as_it_is_and_another_text_as_a_text() -> None:
    assert value_of("json", Text('{"n": 1.50}')) == b'{"n": 1.50}'
    assert value_of("json", raw('{"n": 1.50}')) == b'{"n": 1.50}'
    assert value_of("json", Text("ten")) == b'"ten"'
    assert value_of("json", {"n": Decimal("1.5"), "at": None}) == b'{"n":1.5,"at":null}'
    assert value_of("bytes", b"\x00") == b"\x00"


def test_broken_json_is_refused_unless_the_column_has_texts() -> None:
    rows = [{"key": Text("a"), "value": Text('{"n":')}]
    for columns in (Columns(), Columns(value=("key", "value"))):
        with pytest.raises(
            MalformedRequestError, match='"value": it begins like JSON and is not JSON'
        ):
            encoded(make_definition(4), rows, columns)
    (found,) = encoded(make_definition(4), rows, Columns(texts=frozenset({"value"})))
    assert found["value"] == b'"{\\"n\\":"'
    assert value_of("string", Text("{n}")) == b"{n}"


def test_json_has_texts_for_numbers_that_it_lacks() -> None:
    nested = {"n": [1.5, float("nan")], "m": {"x": float("-inf")}}
    assert value_of("json", nested) == b'{"n":[1.5,"NaN"],"m":{"x":"-Infinity"}}'
    row = {"key": "a", "x": float("inf"), "y": 1}
    assert encoded(make_definition(4), [row])[0]["value"] == b'{"x":"Infinity","y":1}'
    known = serde_of("float64")
    assert value_of("float64", float("nan")) == known.encode(known.from_json("NaN"))


class Moment(datetime):
    """A time with nanoseconds, as that of pandas."""


def test_a_time_of_a_library_is_a_time() -> None:
    at = Moment(2026, 1, 1, tzinfo=UTC)
    assert value_of("json", {"at": at}) == b'{"at":"2026-01-01T00:00:00+00:00"}'
    with pytest.raises(MalformedRequestError, match='line 2: column "value": JSON has no complex'):
        value_of("json", 1j)


LONG = "9" * 5000


@pytest.mark.parametrize("cell", [Text(LONG), raw(LONG)])
def test_a_number_that_is_too_long_for_python_is_refused(cell: Any) -> None:
    for name in ("value", "timestamp", "partition"):
        definition = make_definition(4, value_serde="int64", partitioner=Partitioner.EXPLICIT)
        row = {"key": Text("a"), "value": Text("1"), "partition": 0, name: cell}
        with pytest.raises(MalformedRequestError, match="line 2: "):
            encoded(definition, [row])


@pytest.mark.parametrize("cell", [None, raw("null")])
def test_null_deletes(cell: Any) -> None:
    assert value_of("json", cell) is None


def test_without_a_column_value_all_others_make_an_object() -> None:
    row = {"id": Text("7"), "zip": Text("01"), "n": Text("2"), "none": None, "timestamp": Text("5")}
    (found,) = encoded(make_definition(4), [row], Columns(key=("id",)))
    assert (found["key"], found["timestamp"]) == (b"7", 5)
    # 01 is no number of JSON.
    assert found["value"] == b'{"zip":"01","n":2,"none":null}'
    texts = Columns(key=("id",), value=("n", "none"), texts=frozenset({"n"}))
    (found,) = encoded(make_definition(4), [row], texts)
    assert found["value"] == b'{"n":"2","none":null}'


@pytest.mark.parametrize("late", ["value", "timestamp"])
def test_a_line_with_a_value_or_a_time_that_the_first_line_lacks_is_refused(late: str) -> None:
    rows = [{"key": raw('"a"'), "n": raw("1")}, {"key": raw('"b"'), late: raw("5")}]
    mend = "by --value" if late == "value" else "as null"
    told = f'line 3: column "{late}" is not in the first.*{mend}'
    with pytest.raises(MalformedRequestError, match=told):
        encoded(make_definition(4), rows)
    of_first = encoded(make_definition(4), [{**rows[0], late: raw("null")}, rows[1]])
    assert of_first[1][late] == (b"5" if late == "value" else 5)


def test_a_text_of_parquet_stays_a_text_in_an_object() -> None:
    (found,) = encoded(
        make_definition(4), [{"k": "a", "zip": "10115", "n": 1}], Columns(key=("k",))
    )
    assert found["value"] == b'{"zip":"10115","n":1}'


def test_several_columns_make_a_key() -> None:
    definition = make_definition(4, key_serde="json")
    rows = [{"a": Text("x"), "b": Text("1"), "value": Text("v")}]
    (found,) = encoded(definition, rows, Columns(key=("a", "b")))
    assert found["key"] == b'{"a":"x","b":1}'


def test_each_key_goes_to_its_partition_and_the_last_of_equal_keys_wins() -> None:
    rows = [{"key": Text(str(n % 50)), "value": Text(str(n))} for n in range(100)]
    found = encoded(make_definition(4), rows)
    assert all(row["partition"] == partition_of(row["key"], 4) for row in found)
    last = {row["key"]: row["value"] for row in found}
    assert last == {str(n).encode(): str(n + 50).encode() for n in range(50)}


def test_the_writer_may_choose_the_partition() -> None:
    definition = make_definition(4, partitioner=Partitioner.EXPLICIT)
    rows = [
        {"key": Text("a"), "value": Text("1"), "partition": cell} for cell in (Text("3"), raw("1"))
    ]
    assert [row["partition"] for row in encoded(definition, rows)] == [1, 3]
    for wrong in (Text("4"), Text("x"), raw('"1"'), None):
        with pytest.raises(MalformedRequestError, match="a number from 0 to 3"):
            encoded(definition, [{**rows[0], "partition": wrong}])


def test_times_are_numbers_or_texts_or_those_of_parquet() -> None:
    at = datetime(1970, 1, 1, 0, 0, 1, 500_000, tzinfo=UTC)
    for cell in (Text("1500"), Text("1970-01-01T00:00:01.5Z"), raw("1500"), 1500, at):
        row = {"key": Text("a"), "value": Text("1"), "at": cell}
        (found,) = encoded(make_definition(4), [row], Columns(timestamp="at"))
        assert found["timestamp"] == 1500


def test_windows_and_sessions_take_the_columns_that_qss_prints() -> None:
    window = make_definition(4, type=StoreType.WINDOW)
    row = {"key": Text("a"), "windowStart": Text("1000"), "windowEnd": Text("2000")}
    (found,) = encoded(window, [{**row, "n": Text("1")}])
    assert (found["window_start"], found["value"]) == (1000, b'{"n":1}')
    with pytest.raises(MalformedRequestError, match='column "windowStart" is before 1970'):
        encoded(window, [{**row, "windowStart": Text("-1")}])
    session = {"key": raw('"a"'), "session_start": raw("5"), "session_end": raw("9")}
    definition = make_definition(4, type=StoreType.SESSION)
    (found,) = encoded(definition, [{**session, "value": raw("1")}])
    assert (found["session_start"], found["session_end"], found["value"]) == (5, 9, b"1")
    with pytest.raises(MalformedRequestError, match="no column window_start"):
        encoded(window, [{"key": Text("a"), "value": Text("1")}])


def test_versions_need_a_time() -> None:
    definition = make_definition(4, type=StoreType.VERSIONED, history_retention_ms=10**9)
    row = {"key": Text("a"), "value": Text("1"), "validFrom": Text("5")}
    with pytest.raises(MalformedRequestError, match="valid by --timestamp"):
        encoded(definition, [row])
    (found,) = encoded(definition, [row], Columns(timestamp="validFrom"))
    assert found["timestamp"] == 5
    with pytest.raises(MalformedRequestError, match='line 2: column "validFrom" is null'):
        encoded(definition, [{**row, "validFrom": None}], Columns(timestamp="validFrom"))


def test_lines_that_do_not_fit_are_named_together() -> None:
    definition = make_definition(4, value_serde="int64")
    rows: list[Cells] = [
        {"key": Text("a"), "value": Text("1")},
        {"key": Text("b"), "value": Text("one")},
        {"key": None, "value": Text("1")},
        {"key": Text("k" * 70_000), "value": Text("1")},
    ]
    with pytest.raises(MalformedRequestError) as refused:
        encoded(definition, rows)
    assert refused.value.message.splitlines() == [
        "line 3: column \"value\": int64 expected, got the string 'one'",
        'line 4: column "key" is null: a row has a key',
        "line 5: the key has 70000 bytes, at most 65536 are stored",
    ]


def test_ten_lines_that_do_not_fit_are_enough() -> None:
    def bad() -> Any:
        for number in range(10):
            yield InputRow(number, problem="bad")
        pytest.fail("it read on")

    encoder = InputRowEncoder(make_definition(4), Columns(), ("key", "value"), "line")
    with pytest.raises(MalformedRequestError) as refused:
        list(encoder.groups(bad()))
    assert len(refused.value.message.splitlines()) == 10


def test_a_missing_column_is_named() -> None:
    with pytest.raises(MalformedRequestError, match="no column id, at: it has key, value"):
        InputRowEncoder(
            make_definition(4), Columns(key=("id",), timestamp="at"), ("key", "value"), "line"
        )
    with pytest.raises(MalformedRequestError, match="values of store words are int64: name one"):
        InputRowEncoder(make_definition(4, value_serde="int64"), Columns(), ("key", "a"), "line")


def test_large_rows_make_several_groups() -> None:
    encoder = InputRowEncoder(make_definition(1), Columns(), ("key", "value"), "line")
    value = Text("x" * (6 * 1024 * 1024))
    rows = (InputRow(n, {"key": Text(str(n)), "value": value}) for n in range(5))
    groups: list[list[Slice]] = list(encoder.groups(rows))
    assert [sum(one.records for one in group) for group in groups] == [3, 2]
