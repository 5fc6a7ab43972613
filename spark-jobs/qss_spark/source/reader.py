"""The batch reader of the data source: one Spark partition for each partition of the store."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
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
)

from qss_client import ReadOptions, Store
from qss_client.chunks.chunk_schema import SESSION_END, SESSION_START, WINDOW_START
from qss_client.reads.tables import Scanned
from qss_core.errors import (
    MalformedRequestError,
    PartitionDoesNotExistError,
    UnknownQueryTypeError,
)
from qss_core.formats.values import Format
from qss_core.model import Isolation, Partitioner, StoreDefinition, StoreType
from qss_core.partitioning import partition_of
from qss_core.positions import Position, parse_bound
from qss_core.serdes.registry import serde_of
from qss_spark.early_stop import end_quietly_when_stopped
from qss_spark.options import Access
from qss_spark.source.read_bounds import bounds_of
from qss_spark.time_columns import WINDOW_END

_ROWS_PER_BATCH = 10_000
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


def type_of(serde: str) -> DataType:
    """The Spark type of a serde's values; json is text."""
    if serde.startswith("list<"):
        return ArrayType(type_of(serde[len("list<") : -1]))
    return _TYPES[serde]


def schema_of(definition: StoreDefinition) -> StructType:
    """Key, times and value, and the timestamp and headers that the format keeps.

    All times are milliseconds since 1970. Raises UnknownQueryTypeError for a Versioned store.
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
        *(StructField(name, LongType(), nullable=False) for name in times),
        StructField("value", type_of(definition.value_serde)),
    ]
    if definition.format in (Format.Timestamped, Format.TimestampedWithHeaders):
        fields.append(StructField("timestamp", LongType()))
    if definition.format in (Format.TimestampedWithHeaders, Format.PlainWithHeaders):
        fields.append(StructField("headers", _HEADERS))
    return StructType(fields)


class StorePartition(InputPartition):
    """One partition of the store."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class StoreReader(DataSourceReader):
    """Reads a store, or the rows that options choose."""

    def __init__(
        self,
        options: Mapping[str, str],
        urls: tuple[str, ...],
        definition: StoreDefinition,
        schema: StructType,
        access: Access,
    ) -> None:
        """Raises for columns that the store lacks, and for options that exclude each other."""
        _check_columns(schema, definition)
        self._urls = urls
        self._access = access
        self._definition = definition
        self._schema = schema
        self._bounds = bounds_of(options, definition)
        self._key = self._bounds.get("key")
        self._bound = _bound(options.get("positionBound") or options.get("positionbound"))
        self._isolation = _isolation(options.get("isolation"), definition)
        self._partitions = self._chosen(options.get("partitions"))

    def _chosen(self, text: str | None) -> list[int]:
        is_known = self._key is not None and self._definition.partitioner is Partitioner.MURMUR2
        if text is not None and is_known:
            raise MalformedRequestError(
                "give key or partitions, not both: the key determines its partition"
            )
        if text is not None:
            return _numbers(text, self._definition)
        if not is_known:
            return list(range(self._definition.partitions))
        serde = serde_of(self._definition.key_serde)
        key = serde.encode(serde.from_json(self._key))
        return [partition_of(key, self._definition.partitions)]

    def partitions(self) -> Sequence[InputPartition]:
        """The partitions to read; Spark calls it once per DataFrame.

        It checks the bounds of an index with the pods here: a failing task would be repeated. Each
        task finds out which pod has its partition.
        """
        if "index" in self._bounds:
            with self._store() as store:
                next(self._tables(store, self._partitions[0], limit=1))
        return [StorePartition(number) for number in self._partitions]

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Runs when a task gets the reader: Spark may stop it before its first row."""
        self.__dict__.update(state)
        end_quietly_when_stopped()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The partition's rows, as Arrow batches with exactly the columns of the schema."""
        assert isinstance(partition, StorePartition)
        schema: pa.Schema = to_arrow_schema(self._schema)
        with self._store() as store:
            for table in self._tables(store, partition.number):
                columns = [_column(table, field) for field in schema]
                asked = pa.Table.from_arrays(columns, schema=schema)
                yield from asked.to_batches(max_chunksize=_ROWS_PER_BATCH)

    def _store(self) -> Store:
        access = self._access
        name = self._definition.name
        return Store(self._urls, name, token_file=access.token_file, ca_file=access.ca_file)

    def _tables(self, store: Store, partition: int, limit: int | None = None) -> Iterator[pa.Table]:
        is_timed = self._definition.row_type is not StoreType.KEY_VALUE
        is_of_a_key = is_timed and self._key is not None
        explicit = self._definition.partitioner is Partitioner.EXPLICIT
        options = ReadOptions(
            position_bound=self._bound,
            isolation=self._isolation,
            partition=partition if explicit and is_of_a_key else None,
        )
        partitions = None if is_of_a_key else [partition]
        match self._definition.row_type:
            case StoreType.WINDOW:
                scan: Scanned[Any] = store.windows(
                    self._key,
                    from_=self._bounds.get("from"),
                    to=self._bounds.get("to"),
                    key_from=self._bounds.get("keyFrom"),
                    key_to=self._bounds.get("keyTo"),
                    partitions=partitions,
                    options=options,
                )
            case StoreType.SESSION:
                scan = store.sessions(
                    self._key,
                    end_from=self._bounds.get("endFrom"),
                    start_to=self._bounds.get("startTo"),
                    key_from=self._bounds.get("keyFrom"),
                    key_to=self._bounds.get("keyTo"),
                    partitions=partitions,
                    options=options,
                )
            case _ if "prefix" in self._bounds:
                scan = store.prefix(self._bounds["prefix"], partitions=partitions, options=options)
            case _:
                scan = store.range(
                    self._bounds.get("key", self._bounds.get("from")),
                    self._bounds.get("key", self._bounds.get("to")),
                    index=self._bounds.get("index"),
                    limit=limit,
                    partitions=partitions,
                    options=options,
                )
        return scan.arrow_tables()


def _check_columns(schema: StructType, definition: StoreDefinition) -> None:
    """Raises in the driver for columns of a user's schema that are unknown or of other types."""
    known = schema_of(definition)
    if unknown := set(schema.names) - set(known.names):
        raise MalformedRequestError(f"store columns are {known.names}, not {sorted(unknown)}")
    for field in schema:
        has, asked = known[field.name].dataType.simpleString(), field.dataType.simpleString()
        if has != asked:
            raise MalformedRequestError(
                f"column {field.name} of store {definition.name} is a {has}, not a {asked}: read "
                f"it as it is, and change it with cast"
            )


def _column(table: pa.Table, field: pa.Field) -> pa.ChunkedArray:
    """The column in Spark's type; null if the format no longer keeps it."""
    if field.name not in table.column_names:
        return pa.chunked_array([pa.nulls(table.num_rows, field.type)])
    return table.column(field.name).cast(field.type)


def _numbers(text: str, definition: StoreDefinition) -> list[int]:
    try:
        numbers = list(dict.fromkeys(int(number) for number in text.split(",")))
    except ValueError as error:
        raise MalformedRequestError(f"partitions are numbers like 0,3, not {text!r}") from error
    if not set(numbers) <= set(range(definition.partitions)):
        raise PartitionDoesNotExistError(
            f"store {definition.name} has the partitions 0..{definition.partitions - 1}, "
            f"not {text!r}"
        )
    return numbers


def _isolation(text: str | None, definition: StoreDefinition) -> Isolation:
    """The given isolation, or the store's own, so that all tasks use the same."""
    try:
        return definition.isolation if text is None else Isolation(text.upper())
    except ValueError as error:
        names = " or ".join(one.value for one in Isolation)
        raise MalformedRequestError(f"isolation is {names}, not {text!r}") from error


def _bound(text: str | None) -> Position | None:
    if text is None:
        return None
    try:
        return parse_bound(json.loads(text) if text.lstrip().startswith("{") else text)
    except ValueError as error:
        raise MalformedRequestError(f"positionBound: no JSON: {text[:80]!r}: {error}") from error
