"""Unwraps values with a time to live: Spark keeps their expiry beside them. Pure.

The columns of the value come first, and then `ttlExpirationMs`. Spark deletes expired values with
the first batch whose time is not before the expiry, so no value outlives it in the state of a batch
(`test_spark_state`).
"""

import pyarrow as pa

from qss_spark.state.types import Field, Struct, unique_names


def unwrapped_fields(fields: tuple[Field, ...]) -> tuple[Field, ...]:
    """The columns of a value and its expiry, from the columns of a place that has expiries."""
    value, expiry = fields
    assert isinstance(value.type, Struct), "the inventory has looked"
    return (*value.type.fields, expiry)


def unwrapped(rows: pa.Table, fields: tuple[Field, ...]) -> pa.Table:
    """The keys and values of a table; `fields` are the columns that `unwrapped_fields` has."""
    names = unique_names(fields)
    values = rows.column("value")
    flat = [_flat(chunk, names) for chunk in values.chunks] or [
        _flat(pa.array([], values.type), names)
    ]
    return rows.set_column(rows.schema.get_field_index("value"), "value", pa.chunked_array(flat))


def _flat(values: pa.Array, names: list[str]) -> pa.Array:
    if pa.types.is_list(values.type):
        return pa.ListArray.from_arrays(values.offsets, _flat(values.values, names))
    value, expiry = values.flatten()
    return pa.StructArray.from_arrays([*value.flatten(), expiry], names=names)
