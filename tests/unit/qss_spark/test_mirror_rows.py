"""The rows of a store that the state of a query becomes."""

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from qss_client.chunks.chunk import decode_chunk
from qss_core.errors import MalformedRequestError
from qss_core.model import Partitioner, StoreType
from qss_core.partitioning import partition_of
from qss_spark.mirroring.rows.store_rows import StoreRows
from qss_testing.pods.stores import make_definition

KEY = pa.struct([("k", pa.string())])
VALUE = pa.struct([("n", pa.int64())])


def rows_of(
    key: pa.StructType, value: pa.DataType, rows: list[tuple[Any, Any]], **definition: Any
) -> dict[bytes, bytes | None]:
    """The rows as a store gets them; a value None is a deleted key."""
    kept = [row for row in rows if row[1] is not None]
    changed = pa.table(
        {
            "key": pa.array([one for one, _ in kept], key),
            "value": pa.array([one for _, one in kept], value),
        }
    )
    deleted = pa.array([one for one, gone in rows if gone is None], key)
    made = StoreRows(make_definition(4, **definition), key, value)
    found: dict[bytes, bytes | None] = {}
    for group in made.groups(changed, deleted, changed.slice(0, 0)):
        for one in group:
            (decoded,) = decode_chunk(bytes(one.data), 4)
            for batch in decoded.batches:
                keys = batch.column("key").to_pylist()
                assert keys == sorted(keys)
                assert {partition_of(each, 4) for each in keys} == {one.partition}
                found |= dict(zip(keys, batch.column("value").to_pylist(), strict=True))
    return found


def test_a_key_of_one_column_is_plain_and_a_gone_key_is_deleted() -> None:
    rows = [({"k": "a"}, {"n": 1}), ({"k": "b"}, None)]
    assert rows_of(KEY, VALUE, rows) == {b"a": b'{"n":1}', b"b": None}
    numbers = pa.struct([("k", pa.int64())])
    assert rows_of(numbers, VALUE, [({"k": 7}, {"n": 1})], key_serde="int64") == {
        (7).to_bytes(8, "big"): b'{"n":1}'
    }


def test_a_key_of_several_columns_is_json_by_their_names() -> None:
    start = datetime(2026, 1, 1, 0, 4, tzinfo=UTC)
    times = pa.struct([("start", pa.timestamp("us", "UTC")), ("end", pa.timestamp("us", "UTC"))])
    key = pa.struct([("window", times), ("k", pa.string())])
    given = {"window": {"start": start, "end": start.replace(microsecond=500)}, "k": "a"}
    (found,) = rows_of(key, VALUE, [(given, {"n": 1})], key_serde="json")
    assert found == (
        b'{"window":{"start":"2026-01-01T00:04:00Z","end":"2026-01-01T00:04:00.000500Z"},"k":"a"}'
    )


def test_the_keys_of_a_map_and_of_timers_have_the_grouping_key_and_their_own() -> None:
    key = pa.struct([("key", KEY), ("userKey", pa.struct([("p", pa.string())]))])
    given = {"key": {"k": "a"}, "userKey": {"p": "x"}}
    (found,) = rows_of(key, VALUE, [(given, {"n": 1})], key_serde="json")
    assert found == b'{"k":"a","p":"x"}'
    timer = pa.struct([("key", KEY), ("expiryTimestampMs", pa.int64())])
    of_timer = {"key": {"k": "a"}, "expiryTimestampMs": 5}
    (found,) = rows_of(timer, VALUE, [(of_timer, {"n": 1})], key_serde="json")
    assert found == b'{"k":"a","expiryTimestampMs":5}'
    same = pa.struct([("key", KEY), ("userKey", KEY)])
    (found,) = rows_of(
        same, VALUE, [({"key": {"k": "a"}, "userKey": {"k": "x"}}, {"n": 1})], key_serde="json"
    )
    assert found == b'{"key":{"k":"a"},"userKey":{"k":"x"}}'


@pytest.mark.parametrize(
    ("kind", "value", "shown"),
    [
        (
            pa.decimal128(30, 5),
            Decimal("-100000000000000000000.00001"),
            b"-100000000000000000000.00001",
        ),
        (pa.decimal128(12, 3), Decimal("5.000"), b"5.000"),
        (pa.date32(), date(2026, 2, 1), b'"2026-02-01"'),
        (
            pa.timestamp("us"),
            datetime(2026, 1, 1, 0, 0, 0, 500000),  # noqa: DTZ001 Spark's type without a zone.
            b'"2026-01-01T00:00:00.500000"',
        ),
        (pa.binary(), b"\x00\xff", b'"AP8="'),
        (pa.timestamp("us", "UTC"), 253_402_300_800_000_000, b'"+10000-01-01T00:00:00Z"'),
        (pa.timestamp("us"), (1 << 63) - 1, b'"+294247-01-10T04:00:54.775807"'),
        (pa.timestamp("us"), -62_198_755_200_000_000, b'"-0001-01-01T00:00:00"'),
        (pa.date32(), 2_932_897, b'"+10000-01-01"'),
        (pa.date32(), -719_528, b'"0000-01-01"'),
        (pa.list_(pa.date32()), [2_932_896, None], b'["9999-12-31",null]'),
        (pa.map_(pa.float64(), pa.int8()), [(math.nan, 1), (0.5, 2)], b'{"NaN":1,"0.5":2}'),
        (pa.float64(), math.nan, b"null"),
        (pa.list_(pa.string()), ["\u00e4", None], '["ä",null]'.encode()),
        (pa.map_(pa.string(), pa.int64()), [("one", 1), ("two", None)], b'{"one":1,"two":null}'),
        (pa.map_(pa.int32(), pa.int64()), [(5, 1)], b'{"5":1}'),
        (pa.struct([("q", pa.bool_())]), {"q": True}, b'{"q":true}'),
        (pa.null(), None, b"null"),
    ],
    ids=str,
)
def test_values_are_json_that_loses_nothing_but_what_json_lacks(
    kind: pa.DataType, value: Any, shown: bytes
) -> None:
    held = pa.struct([("v", kind)])
    assert rows_of(KEY, held, [({"k": "a"}, {"v": value})]) == {b"a": b'{"v":' + shown + b"}"}


def test_keys_that_are_no_numbers_differ() -> None:
    """Spark has a group for each of them, and one for null."""
    keys = (0.5, math.nan, math.inf, -math.inf, None)
    for kind, more, shown in (
        (pa.float64(), {}, "{}"),
        (pa.float32(), {"n": 1}, '{{"k":{},"n":1}}'),
    ):
        key = pa.struct([("k", kind), *((name, pa.int64()) for name in more)])
        rows = [({"k": one, **more}, {"n": 1}) for one in keys]
        assert sorted(rows_of(key, VALUE, rows, key_serde="json")) == sorted(
            shown.format(text).encode()
            for text in ("0.5", '"NaN"', '"Infinity"', '"-Infinity"', "null")
        )
    plain = pa.struct([("k", pa.float64())])
    rows = [({"k": one}, {"n": 1}) for one in (math.nan, math.inf)]
    assert len(rows_of(plain, VALUE, rows, key_serde="float64")) == 2


@pytest.mark.parametrize(
    ("kind", "key", "definition", "said"),
    [
        (pa.string(), None, {}, "key column k .*string expected, got null.* serde json"),
        (pa.int64(), None, {"key_serde": "int64"}, "key column k .*int64 expected, got null"),
        (pa.int64(), 1 << 40, {"key_serde": "int32"}, "key column k .*1099511627776 is no int32"),
        (pa.string(), "a", {"value_serde": "int16"}, "value column n .*1000000 is no int16"),
    ],
)
def test_rows_that_a_store_does_not_take_are_refused_by_their_column(
    kind: pa.DataType, key: Any, definition: dict[str, Any], said: str
) -> None:
    keys = pa.struct([("k", kind)])
    made = StoreRows(make_definition(4, **definition), keys, VALUE)
    whole = pa.table(
        {"key": pa.array([{"k": key}], keys), "value": pa.array([{"n": 1_000_000}], VALUE)}
    )
    with pytest.raises(MalformedRequestError, match=said):
        made.check(whole)
    with pytest.raises(MalformedRequestError, match=said):
        list(made.groups(whole, pa.array([], keys), whole.slice(0, 0)))


def test_a_list_is_an_array_of_its_elements() -> None:
    held = pa.list_(pa.struct([("d", pa.float64())]))
    assert rows_of(KEY, held, [({"k": "a"}, [{"d": 0.5}, {"d": None}])]) == {
        b"a": b'[{"d":0.5},{"d":null}]'
    }


def test_the_only_column_of_a_value_is_the_value_of_a_store_without_json() -> None:
    assert rows_of(KEY, VALUE, [({"k": "a"}, {"n": 7})], value_serde="int64") == {
        b"a": (7).to_bytes(8, "big")
    }
    with pytest.raises(MalformedRequestError, match=r"the value column n .* got null.* serde json"):
        rows_of(KEY, VALUE, [({"k": "a"}, {"n": None})], value_serde="int64")


@pytest.mark.parametrize(
    ("definition", "said"),
    [
        ({"type": StoreType.VERSIONED}, "is a Versioned store"),
        ({"type": StoreType.WINDOW}, "is a Window store, and the keys of this state have no"),
        ({"type": StoreType.SESSION}, "is a Session store, and this state has no session windows"),
        ({"partitioner": Partitioner.EXPLICIT}, "hashes its keys"),
    ],
)
def test_a_store_that_cannot_take_the_rows_is_refused(
    definition: dict[str, Any], said: str
) -> None:
    with pytest.raises(MalformedRequestError, match=said):
        rows_of(KEY, VALUE, [], **definition)


def test_many_rows_go_in_several_groups() -> None:
    definition = make_definition(4)
    rows = 40
    changed = pa.table(
        {
            "key": pa.array([{"k": f"k{one}"} for one in range(rows)], KEY),
            "value": pa.array(
                [{"v": "x" * 1_000_000} for _ in range(rows)], pa.struct([("v", pa.string())])
            ),
        }
    )
    made = StoreRows(definition, KEY, pa.struct([("v", pa.string())]))
    groups = list(made.groups(changed, pa.array([], KEY), changed.slice(0, 0)))
    assert len(groups) == 3
    assert sum(one.records for group in groups for one in group) == rows
