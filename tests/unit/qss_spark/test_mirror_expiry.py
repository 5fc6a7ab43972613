"""Values with a time to live, as a store gets them."""

import pyarrow as pa

from qss_spark.mirroring.rows.time_to_live import unwrapped, unwrapped_fields
from qss_spark.state.types import Field, Struct, arrow_of

N, D, EXPIRY = Field("n", "long"), Field("d", "double"), Field("ttlExpirationMs", "long")
WRAPPED = (Field("value", Struct((N, D))), EXPIRY)
KEYS = pa.array([{"k": "a"}, {"k": "b"}])


def test_the_expiry_is_the_last_column() -> None:
    fields = unwrapped_fields(WRAPPED)
    assert fields == (N, D, EXPIRY)
    given = [
        {"value": {"n": 1, "d": None}, "ttlExpirationMs": 5},
        {"value": None, "ttlExpirationMs": None},
    ]
    rows = pa.table({"key": KEYS, "value": pa.array(given, arrow_of(Struct(WRAPPED)))})
    expected = [
        {"n": 1, "d": None, "ttlExpirationMs": 5},
        {"n": None, "d": None, "ttlExpirationMs": None},
    ]
    for one, shown in ((rows, expected), (rows.slice(1), expected[1:]), (rows.slice(0, 0), [])):
        found = unwrapped(one, fields)
        assert found.column("value").to_pylist() == shown
        assert found.column("key") == one.column("key")
        assert found.schema.field("value").type == arrow_of(Struct(fields))


def test_each_element_of_a_list_has_its_expiry() -> None:
    given = [[{"value": {"n": 1, "d": 0.5}, "ttlExpirationMs": 5}], []]
    kind = pa.list_(arrow_of(Struct(WRAPPED)))
    rows = pa.table({"key": KEYS, "value": pa.array(given, kind)})
    found = unwrapped(rows, unwrapped_fields(WRAPPED))
    assert found.column("value").to_pylist() == [[{"n": 1, "d": 0.5, "ttlExpirationMs": 5}], []]


def test_a_column_of_the_same_name_keeps_it() -> None:
    fields = unwrapped_fields((Field("value", Struct((EXPIRY,))), EXPIRY))
    given = pa.array(
        [{"value": {"ttlExpirationMs": 1}, "ttlExpirationMs": 2}],
        pa.struct(
            [
                ("value", pa.struct([("ttlExpirationMs", pa.int64())])),
                ("ttlExpirationMs", pa.int64()),
            ]
        ),
    )
    found = unwrapped(pa.table({"key": KEYS.slice(1), "value": given}), fields)
    assert found.column("value").to_pylist() == [{"ttlExpirationMs": 1, "ttlExpirationMs_1": 2}]
