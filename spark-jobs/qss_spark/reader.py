"""The batch reader of the data source: one Spark partition for each partition of the store."""

import json
from base64 import b64decode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
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

from qss_client import ReadOptions, Row, Store
from qss_core.errors import (
    MalformedRequestError,
    PartitionDoesNotExistError,
    RangeReversedError,
)
from qss_core.formats import Format
from qss_core.model import Partitioner, StoreDefinition
from qss_core.partitioning import partition_of
from qss_core.positions import Position, parse_bound
from qss_core.serdes import serde_of
from qss_spark.options import Access

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


def type_of(serde: str) -> DataType:
    """Spark's type of a serde's values; a json stays its text."""
    if serde.startswith("list<"):
        return ArrayType(type_of(serde[len("list<") : -1]))
    return _TYPES[serde]


def schema_of(definition: StoreDefinition) -> StructType:
    """Key and value, and the timestamp (milliseconds) and headers that the format keeps."""
    fields = [
        StructField("key", type_of(definition.key_serde), nullable=False),
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
        """`number` counts from 0."""
        super().__init__(number)
        self.number = number


class StoreReader(DataSourceReader):
    """Reads a store, or a key, a range or a prefix of it."""

    def __init__(
        self,
        options: Mapping[str, str],
        definition: StoreDefinition,
        schema: StructType,
        access: Access,
    ) -> None:
        """Refuses columns that the store does not have and options that do not go together."""
        self._url = options["url"]
        self._access = access
        self._definition = definition
        self._schema = schema
        self._key = self._parsed(options.get("key"))
        self._prefix = self._parsed(options.get("prefix"))
        self._lower, self._upper = (
            self._parsed(options.get("from")),
            self._parsed(options.get("to")),
        )
        self._bound = _bound(options.get("positionBound") or options.get("positionbound"))
        self._partitions = self._chosen(options.get("partitions"))
        known = schema_of(definition).names
        if unknown := set(schema.names) - set(known):
            raise MalformedRequestError(f"store columns are {known}, not {sorted(unknown)}")
        self._check_range()
        given = [self._key is not None, self._prefix is not None]
        if sum(given) + (self._lower is not None or self._upper is not None) > 1:
            raise MalformedRequestError("give one of key, prefix, or from and to")

    def _parsed(self, text: str | None) -> Any:
        """An option's key as the JSON of its type; a store's client takes it from there."""
        if text is None:
            return None
        serde = serde_of(self._definition.key_serde)
        return serde.to_json(serde.decode(serde.key_from_text(text)))

    def _check_range(self) -> None:
        """Told here, and not by tasks that are tried again."""
        if self._lower is None or self._upper is None:
            return
        serde = serde_of(self._definition.key_serde)
        lower, upper = (
            serde.encode(serde.from_json(bound)) for bound in (self._lower, self._upper)
        )
        if lower > upper:
            raise RangeReversedError(
                f"from {self._lower!r} lies above to {self._upper!r}, by serialized bytes"
            )

    def _chosen(self, text: str | None) -> list[int]:
        everything = range(self._definition.partitions)
        if text is not None:
            return _numbers(text, self._definition)
        if self._key is None or self._definition.partitioner is not Partitioner.MURMUR2:
            return list(everything)
        serde = serde_of(self._definition.key_serde)
        key = serde.encode(serde.from_json(self._key))
        return [partition_of(key, self._definition.partitions)]

    def partitions(self) -> Sequence[InputPartition]:
        """Spark asks once a DataFrame: who holds a partition is found out when it is read."""
        return [StorePartition(number) for number in self._partitions]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The partition's rows, as Arrow batches of exactly the asked columns."""
        assert isinstance(partition, StorePartition)
        access = self._access
        name = self._definition.name
        with Store(self._url, name, token_file=access.token_file, ca_file=access.ca_file) as store:
            rows = iter(self._rows(store, partition.number))
            while batch := list(islice(rows, _ROWS_PER_BATCH)):
                yield self._batch(batch)

    def _rows(self, store: Store, partition: int) -> Iterable[Row]:
        explicit = self._definition.partitioner is Partitioner.EXPLICIT
        options = ReadOptions(
            position_bound=self._bound,
            partition=partition if explicit and self._key is not None else None,
        )
        if self._key is not None:
            row = store.get(self._key, options)
            return [] if row is None else [row]
        if self._prefix is not None:
            return store.prefix(self._prefix, partitions=[partition], options=options)
        return store.range(self._lower, self._upper, partitions=[partition], options=options)

    def _batch(self, rows: list[Row]) -> pa.RecordBatch:
        columns = {
            "key": lambda row: _spark_value(row.key, self._definition.key_serde),
            "value": lambda row: _spark_value(row.value, self._definition.value_serde),
            "timestamp": lambda row: row.timestamp,
            "headers": _spark_headers,
        }
        schema: pa.Schema = to_arrow_schema(self._schema)
        arrays = [
            pa.array([columns[name](row) for row in rows], schema.field(name).type)
            for name in schema.names
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _spark_value(value: Any, serde: str) -> Any:
    if value is None:
        return None
    if serde == "json":
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    if serde == "bytes":
        return b64decode(value)
    if serde in ("float32", "float64"):
        return float(value)  # NaN and the infinities come as texts.
    if serde.startswith("list<"):
        return [_spark_value(item, serde[len("list<") : -1]) for item in value]
    return value


def _spark_headers(row: Row) -> list[dict[str, Any]] | None:
    if row.headers is None:
        return None
    return [
        {"key": name, "value": None if value is None else b64decode(value)}
        for name, value in row.headers
    ]


def _numbers(text: str, definition: StoreDefinition) -> list[int]:
    try:
        numbers = [int(number) for number in text.split(",")]
    except ValueError as error:
        raise MalformedRequestError(f"partitions are numbers like 0,3, not {text!r}") from error
    if not set(numbers) <= set(range(definition.partitions)):
        raise PartitionDoesNotExistError(
            f"store {definition.name} has the partitions 0..{definition.partitions - 1}, "
            f"not {text!r}"
        )
    return numbers


def _bound(text: str | None) -> Position | None:
    if text is None:
        return None
    try:
        return parse_bound(json.loads(text) if text.lstrip().startswith("{") else text)
    except ValueError as error:
        raise MalformedRequestError(f"positionBound: no JSON: {text[:80]!r}: {error}") from error
