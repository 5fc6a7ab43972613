"""Checks which column types a serde accepts; errors name the column, its type and the cast."""

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.errors import PySparkException
from pyspark.sql.pandas.types import from_arrow_type, to_arrow_type
from pyspark.sql.types import DataType

from qss_core.errors import MalformedRequestError

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
    """Refuses conversions that Arrow makes, but a person would not: "5", true, 2.0 as int64."""
    if not _fits(kind, serde):
        raise MalformedRequestError(refusal(kind, serde, name))


def _fits(kind: pa.DataType, serde: str) -> bool:
    if pa.types.is_null(kind):
        return True
    if serde.startswith("list<"):
        is_list = pa.types.is_list(kind) or pa.types.is_large_list(kind)
        return is_list and _fits(kind.value_type, serde[len("list<") : -1])
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
    """The error text for a column's type, with the cast that mends it."""
    cast = _spark_type(serde)
    how = f', e.g. F.col("{name}").cast("{cast}")' if cast else ""
    return (
        f'column "{name}" has type {type_name(kind)} and cannot be stored as {serde}: cast it{how}'
    )


def arrow_type(kind: DataType) -> pa.DataType | None:
    """The type in which Arrow gets a column of Spark; None for a type that Arrow does not have."""
    try:
        return to_arrow_type(kind)
    except PySparkException:
        return None


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
