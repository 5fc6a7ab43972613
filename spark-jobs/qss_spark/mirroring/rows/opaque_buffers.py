"""Finds the buffers of aggregates that only Spark can read, and leaves them out. Pure.

The state of `collect_list`, `percentile_approx`, `mode` and Spark's other aggregates of the kind
`TypedImperativeAggregate` is an object that the aggregate has serialized in a form of its own: it
is a column `buf` of the type binary.
"""

from collections.abc import Collection

import pyarrow as pa

from qss_core.text import listed
from qss_spark.state.inventory import Place
from qss_spark.state.types import unique_names

HINT = "Only Spark can read such a buffer: write the results with StoreSink"
_SESSIONS = "sessionWindowStateStoreSaveExec"
_AGGREGATIONS = ("stateStoreSave", _SESSIONS)
_BUFFER, _BINARY = "buf", "binary"


def opaque_names(place: Place) -> tuple[str, ...]:
    """The columns of a place's values that are opaque, in their order; repeated ones are numbered.

    The values of sessions begin with the grouping columns, as many as the key has, which are the
    query's own. The values of other aggregations have buffers alone, whatever a grouping column is
    called; of a query that Spark 2.3 began, whose values repeat the key, the copy is left out.
    """
    if place.operator.name not in _AGGREGATIONS:
        return ()
    fields = place.schema.value
    own = len(place.schema.key) if place.operator.name == _SESSIONS else 0
    return tuple(
        name
        for name, one in list(zip(unique_names(fields), fields, strict=True))[own:]
        if (one.name, one.type) == (_BUFFER, _BINARY)
    )


def without(rows: pa.Table, names: Collection[str]) -> pa.Table:
    """The keys and values of a table, whose values have not these columns."""
    if not names:
        return rows
    values = rows.column("value").combine_chunks()
    kept = [number for number, one in enumerate(values.type) if one.name not in names]
    if kept:
        fields = [values.type.field(number) for number in kept]
        left: pa.Array = pa.StructArray.from_arrays(
            [values.field(number) for number in kept], fields=fields
        )
    else:
        left = pa.array([{}] * len(values), pa.struct([]))
    return rows.set_column(rows.schema.get_field_index("value"), "value", left)


def note_of(place: Place) -> str | None:
    """The note on a place whose values have opaque columns; None for other places."""
    names = opaque_names(place)
    if not names:
        return None
    shown = listed(names)
    if len(names) == len(place.schema.value):
        return f"all columns of the values are opaque ({shown}): a store has the keys alone. {HINT}"
    return f"{shown} of the values {'is' if len(names) == 1 else 'are'} opaque and left out. {HINT}"
