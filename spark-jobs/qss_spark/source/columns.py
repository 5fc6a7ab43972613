"""The columns of a store in Spark: their types, a user's choice of them, and their values."""

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from qss_client.chunks.chunk_schema import SESSION_END, SESSION_START, WINDOW_START
from qss_core.errors import MalformedRequestError, UnknownQueryTypeError
from qss_core.formats.values import Format
from qss_core.model import StoreDefinition, StoreType
from qss_spark.column_types import is_text
from qss_spark.source.json_columns import parse_column
from qss_spark.time_columns import WINDOW_END

_HEADERS = ArrayType(
    StructType([StructField("key", StringType()), StructField("value", BinaryType())])
)
_TYPES: dict[str, DataType] = {
    "bytes": BinaryType(),
    "string": StringType(),
    "json": StringType(),
    "uuid": StringType(),
    "int16": ShortType(),
    "int32": IntegerType(),
    "int64": LongType(),
    "float32": FloatType(),
    "float64": DoubleType(),
    "boolean": BooleanType(),
}
_TIME_COLUMNS: dict[StoreType, tuple[str, ...]] = {
    StoreType.WINDOW: (WINDOW_START, WINDOW_END),
    StoreType.SESSION: (SESSION_START, SESSION_END),
}
_OF_ROWS = "timestamp"


def type_of(serde: str) -> DataType:
    """The Spark type of a serde's values; json is text."""
    if serde.startswith("list<"):
        return ArrayType(type_of(serde[len("list<") : -1]))
    return _TYPES[serde]


def schema_of(definition: StoreDefinition) -> StructType:
    """Key, times and value, and the timestamp and headers that the format keeps.

    All times are Spark's timestamps. Raises UnknownQueryTypeError for a Versioned store.
    """
    if definition.row_type is StoreType.VERSIONED:
        raise UnknownQueryTypeError(
            f"store {definition.name} is a Versioned store, which is asked for key by key and is "
            "no batch source: use qss_client's Store.version and Store.versions, or write the "
            "latest values to a KeyValue store as well and read that"
        )
    times = _TIME_COLUMNS.get(definition.row_type, ())
    fields = [
        StructField("key", type_of(definition.key_serde), nullable=False),
        *(StructField(name, TimestampType(), nullable=False) for name in times),
        StructField("value", type_of(definition.value_serde)),
    ]
    if definition.format in (Format.Timestamped, Format.TimestampedWithHeaders):
        fields.append(StructField(_OF_ROWS, TimestampType()))
    if definition.format in (Format.TimestampedWithHeaders, Format.PlainWithHeaders):
        fields.append(StructField("headers", _HEADERS))
    return StructType(fields)


def check_columns(schema: StructType, definition: StoreDefinition) -> None:
    """Raises MalformedRequestError for columns of a user's schema that the store does not give.

    A time may be a timestamp or a long, and a json value any type but binary.
    """
    known = schema_of(definition)
    if unknown := set(schema.names) - set(known.names):
        raise MalformedRequestError(f"store columns are {known.names}, not {sorted(unknown)}")
    for field in schema:
        has, asked = known[field.name].dataType, field.dataType
        if asked.simpleString() == has.simpleString():
            continue
        if isinstance(has, TimestampType) and isinstance(asked, LongType):
            continue
        if field.name == "value" and definition.value_serde == "json":
            continue
        raise MalformedRequestError(
            f"column {field.name} of store {definition.name} is a {has.simpleString()}, not a "
            f"{asked.simpleString()}: read it as it is, and change it with cast"
        )


def column_of(table: pa.Table, field: pa.Field, definition: StoreDefinition) -> pa.ChunkedArray:
    """The column of a scanned table in the field's type; null if the format no longer keeps it.

    Raises MalformedRequestError for a JSON value that is not of the type, and for a time that
    Spark's timestamps do not reach.
    """
    if field.name not in table.column_names:
        return pa.chunked_array([pa.nulls(table.num_rows, field.type)])
    column = table.column(field.name)
    if field.name == "value" and definition.value_serde == "json" and not is_text(field.type):
        return parse_column(column, table.column("key"), field.type)
    if pa.types.is_timestamp(field.type):
        return _timestamps(column, field)
    return column.cast(field.type)


def _timestamps(column: pa.ChunkedArray, field: pa.Field) -> pa.ChunkedArray:
    try:
        return column.cast(pa.timestamp("ms", field.type.tz)).cast(field.type)
    except pa.ArrowInvalid as error:
        raise MalformedRequestError(
            f"column {field.name} has a time that is no timestamp of Spark: read it as "
            f"milliseconds since 1970, by a schema with `{field.name} long`: {error}"
        ) from error
