"""The types of state columns, from the JSON that Spark writes for a schema. Pure."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import pyarrow as pa

from qss_spark.state.errors import CheckpointError, UnknownTypeError

_DECIMAL = re.compile(r"decimal\((\d+),(-?\d+)\)")
LONG_DIGITS_MAX = 18  # The most digits of a decimal that is kept as a long.


@dataclass(frozen=True, slots=True)
class Fixed:
    """A type of a fixed width: its bytes in a row, and its numpy and Arrow types."""

    width: int
    numpy: str
    arrow: pa.DataType


def _intervals(*fields: str) -> list[str]:
    """The names of the intervals from one of these fields to the same or a later one."""
    pairs = combinations(fields, 2)
    return [f"interval {one}" for one in (*fields, *map(" to ".join, pairs))]


FIXED = {
    "boolean": Fixed(1, "u1", pa.bool_()),
    "byte": Fixed(1, "i1", pa.int8()),
    "short": Fixed(2, "<i2", pa.int16()),
    "integer": Fixed(4, "<i4", pa.int32()),
    "long": Fixed(8, "<i8", pa.int64()),
    "float": Fixed(4, "<f4", pa.float32()),
    "double": Fixed(8, "<f8", pa.float64()),
    "date": Fixed(4, "<i4", pa.date32()),
    "timestamp": Fixed(8, "<i8", pa.timestamp("us", "UTC")),
    "timestamp_ntz": Fixed(8, "<i8", pa.timestamp("us")),
    # Intervals are numbers: of months, and of microseconds.
    **dict.fromkeys(_intervals("year", "month"), Fixed(4, "<i4", pa.int32())),
    **dict.fromkeys(_intervals("day", "hour", "minute", "second"), Fixed(8, "<i8", pa.int64())),
}
VARIABLE = {"string": pa.string(), "binary": pa.binary()}


@dataclass(frozen=True, slots=True)
class Decimal:
    """A decimal; up to 18 digits are kept as a long, more as bytes."""

    precision: int
    scale: int


@dataclass(frozen=True, slots=True)
class Field:
    """A column of a key or a value."""

    name: str
    type: "ColumnType"


@dataclass(frozen=True, slots=True)
class Struct:
    fields: tuple[Field, ...]


@dataclass(frozen=True, slots=True)
class Array:
    element: "ColumnType"


@dataclass(frozen=True, slots=True)
class Map:
    key: "ColumnType"
    value: "ColumnType"


# A text names a type of FIXED or VARIABLE, or is `void`.
ColumnType = str | Decimal | Struct | Array | Map


def fields_of(schema: Any) -> tuple[Field, ...]:
    """The columns of a struct's JSON. Raises CheckpointError for a type that is not known."""
    try:
        return tuple(_field(str(one["name"]), one["type"]) for one in schema["fields"])
    except (KeyError, TypeError) as error:
        raise CheckpointError(
            "a schema of the state is no struct with fields of a name and a type"
        ) from error


def _field(name: str, given: Any) -> Field:
    try:
        return Field(name, _type_of(given))
    except UnknownTypeError as error:
        raise UnknownTypeError(f"column {name}: {error.message}") from error


def _type_of(given: Any) -> ColumnType:
    if isinstance(given, str):
        if given in FIXED or given in VARIABLE or given == "void":
            return given
        if given.startswith(("varchar(", "char(", "string collate")):
            return "string"
        if found := _DECIMAL.fullmatch(given):
            return Decimal(int(found[1]), int(found[2]))
        raise UnknownTypeError(f"the type {given} cannot be read from state")
    match given["type"]:
        case "struct":
            return Struct(fields_of(given))
        case "array":
            return Array(_type_of(given["elementType"]))
        case "map":
            return Map(_type_of(given["keyType"]), _type_of(given["valueType"]))
        case other:
            raise UnknownTypeError(f"the type {other} cannot be read from state")


def unique_names(fields: Sequence[Field]) -> list[str]:
    """The names of columns; a repeated one gets a number that makes it another: sum, sum_1."""
    own = {one.name for one in fields}
    names: list[str] = []
    for one in fields:
        name, number = one.name, 0
        while name in names or (number and name in own):
            number += 1
            name = f"{one.name}_{number}"
        names.append(name)
    return names


def width_of(of: ColumnType) -> int:
    """The bytes of an element in an array; 8 for an offset and a size, where the value follows."""
    return FIXED[of].width if isinstance(of, str) and of in FIXED else 8


def arrow_of(of: ColumnType) -> pa.DataType:
    """The Arrow type of a column."""
    match of:
        case Decimal():
            return pa.decimal128(of.precision, of.scale)
        case Struct():
            names = unique_names(of.fields)
            types = (arrow_of(one.type) for one in of.fields)
            return pa.struct(list(zip(names, types, strict=True)))
        case Array():
            return pa.list_(arrow_of(of.element))
        case Map():
            return pa.map_(arrow_of(of.key), arrow_of(of.value))
        case "void":
            return pa.null()
    return FIXED[of].arrow if of in FIXED else VARIABLE[of]


def text_of(of: ColumnType) -> str:
    """The type as Spark's SQL writes it."""
    match of:
        case Decimal():
            return f"decimal({of.precision},{of.scale})"
        case Struct():
            return f"struct<{','.join(f'{one.name}:{text_of(one.type)}' for one in of.fields)}>"
        case Array():
            return f"array<{text_of(of.element)}>"
        case Map():
            return f"map<{text_of(of.key)},{text_of(of.value)}>"
    return {"long": "bigint", "integer": "int", "short": "smallint", "byte": "tinyint"}.get(of, of)


def numpy_of(of: str) -> "np.dtype[Any]":
    return np.dtype(FIXED[of].numpy)
