"""Checks which column types a serde accepts; errors name the column, its type and a remedy."""

from collections.abc import Callable
from inspect import signature
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.errors import PySparkException
from pyspark.sql.pandas.types import from_arrow_type, to_arrow_schema, to_arrow_type
from pyspark.sql.types import DataType, StructType

from qss_core.errors import MalformedRequestError

_HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
_SPARK_TYPES = {
    "string": "string",
    "uuid": "string",
    "bytes": "binary",
    "boolean": "boolean",
    "int16": "short",
    "int32": "int",
    "int64": "long",
    "float32": "float",
    "float64": "double",
}


def check_kind(kind: pa.DataType, serde: str, name: str) -> None:
    """Refuses a column that Arrow would convert without a word: "5", true or 2.0 as an int64."""
    if not _fits(kind, serde):
        raise MalformedRequestError(refusal(kind, serde, name))


def _fits(kind: pa.DataType, serde: str) -> bool:
    if pa.types.is_null(kind):
        return True
    if serde.startswith("list<"):
        return _is_list(kind) and _fits(kind.value_type, serde[len("list<") : -1])
    is_whole = pa.types.is_integer(kind)
    fits = {
        **dict.fromkeys(("string", "uuid"), is_text(kind)),
        "boolean": pa.types.is_boolean(kind),
        "bytes": is_text(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind),
        **dict.fromkeys(("int16", "int32", "int64"), is_whole),
        **dict.fromkeys(("float32", "float64"), is_whole or pa.types.is_floating(kind)),
    }
    return bool(fits.get(serde, True))


def refusal(kind: pa.DataType, serde: str, name: str) -> str:
    """The error text for a column's type, with the expression that mends it."""
    mended = _mended(kind, serde, name)
    return f'column "{name}" has type {type_name(kind)} and cannot be stored as {serde}: {mended}'


def _mended(kind: pa.DataType, serde: str, name: str) -> str:
    """The advice for a column: Spark casts no array, map or struct to another kind of type."""
    item, wanted = kind, serde
    while _is_list(item) and wanted.startswith("list<"):
        item, wanted = item.value_type, wanted[len("list<") : -1]
    if not pa.types.is_nested(item):
        return _mended_by_cast(serde, wanted, name)
    if item is not kind and not _is_list(item):
        return f'convert its elements, e.g. F.transform("{name}", lambda one: one["..."])'
    text = f'F.to_json("{name}") makes a text, for a store of string or json'
    if _is_list(item):
        return f'F.explode("{name}") makes a row of each element, and {text}'
    if pa.types.is_map(item):
        return f'F.map_values("{name}") makes an array of its values, and {text}'
    field = item.field(0).name if item.num_fields else "..."
    return f'F.col("{name}.{field}") takes one field, and {text}'


def _mended_by_cast(serde: str, wanted: str, name: str) -> str:
    """`wanted` is the part of the serde that the column's innermost elements have to be."""
    column = f'F.col("{name}")'
    if serde == "bytes":  # Spark casts no boolean or floating number to binary.
        return f'cast it, e.g. {column}.cast("string").cast("binary")'
    arrays = 0
    while wanted.startswith("list<"):
        arrays, wanted, serde = arrays + 1, wanted[len("list<") : -1], serde[len("list<") : -1]
    cast = _spark_type(serde)
    made = f'{column}.cast("{cast}")' if cast else column
    if arrays:
        return f"make it an array: e.g. {'F.array(' * arrays}{made}{')' * arrays}"
    return f"cast it, e.g. {made}" if cast else "cast it"


def headers_of(column: pa.Array) -> pa.Array:
    """A column `headers` as Kafka's headers. Raises MalformedRequestError for another type."""
    try:
        return column.cast(_HEADERS)
    except pa.ArrowNotImplementedError as error:
        raise MalformedRequestError(_refused_headers(column.type)) from error
    except pa.ArrowException as error:
        raise MalformedRequestError(
            f'column "headers" has a value that cannot be stored: {error}'
        ) from error


def _refused_headers(kind: pa.DataType) -> str:
    column = 'F.col("headers")'
    if pa.types.is_map(kind):
        mended = f'{column}.cast("map<string,string>")'
    elif _is_list(kind) and pa.types.is_struct(kind.value_type) and kind.value_type.num_fields == 2:
        mended = f'{column}.cast("array<struct<key:string,value:string>>")'
    else:
        value = f'{column}.cast("string").cast("binary").alias("value")'
        mended = f'F.array(F.struct(F.lit("name").alias("key"), {value}))'
    return (
        f'column "headers" has type {type_name(kind)} and cannot be stored as headers: it has to '
        f"be an array<struct<key:string,value:binary>> or a map<string,string>, e.g. {mended}"
    )


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))


def arrow_type(kind: DataType) -> pa.DataType | None:
    """The type in which Arrow gets a column of Spark; None for a type that Arrow does not have."""
    try:
        return to_arrow_type(kind, **_zone_of(to_arrow_type))
    except PySparkException:
        return None


def arrow_schema(schema: StructType) -> pa.Schema:
    """The schema in which Spark takes batches: times are microseconds in UTC."""
    made: pa.Schema = to_arrow_schema(schema, **_zone_of(to_arrow_schema))
    return made


def _zone_of(function: Callable[..., Any]) -> dict[str, Any]:
    """The zone of times, which PySpark takes from version 4.2 on and needs from then on."""
    return {"timezone": "UTC"} if "timezone" in signature(function).parameters else {}


def type_name(kind: pa.DataType) -> str:
    """The name of a type in Spark."""
    try:
        return from_arrow_type(kind).simpleString()
    except PySparkException:  # Arrow has types that Spark does not have.
        return str(kind)


def _spark_type(serde: str) -> str | None:
    if serde.startswith("list<"):
        item = _spark_type(serde[len("list<") : -1])
        return None if item is None else f"array<{item}>"
    return _SPARK_TYPES.get(serde)


def is_text(kind: pa.DataType) -> bool:
    """Whether the type is one of Arrow's string types."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def cast_column(column: pa.Array, kind: pa.DataType, serde: str, name: str) -> pa.Array:
    """The column as another type. Raises MalformedRequestError if a value does not fit."""
    try:
        made = column.cast(kind)
    except pa.ArrowNotImplementedError as error:
        raise MalformedRequestError(refusal(column.type, serde, name)) from error
    except pa.ArrowException as error:
        raise MalformedRequestError(
            f'column "{name}" has a value that cannot be stored as {serde}: {error}'
        ) from error
    _check_finite_stays_finite(column, made, name)
    return made


def _check_finite_stays_finite(given: pa.Array, made: pa.Array, name: str) -> None:
    """Raises for a double that float32 cannot hold, which Arrow turns into infinity."""
    while pa.types.is_list(made.type):
        given, made = given.flatten(), made.flatten()
    if not (pa.types.is_float64(given.type) and pa.types.is_float32(made.type)):
        return
    if pc.any(pc.and_(pc.is_finite(given), pc.is_inf(made))).as_py():
        raise MalformedRequestError(
            f'column "{name}" has a number that is larger than float32 can hold'
        )
