"""The batch reader of the data source: one Spark partition for each partition of the store."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from qss_client import ReadOptions, Store
from qss_client.reads.tables import Scanned
from qss_core.errors import MalformedRequestError, PartitionDoesNotExistError
from qss_core.model import Isolation, Partitioner, StoreDefinition, StoreType
from qss_core.partitioning import partition_of
from qss_core.positions import Position, parse_bound
from qss_core.serdes.registry import serde_of
from qss_spark.column_types import arrow_schema
from qss_spark.early_stop import end_quietly_when_stopped
from qss_spark.options import Access
from qss_spark.source.columns import check_columns, column_of
from qss_spark.source.read_bounds import bounds_of

_ROWS_PER_BATCH = 10_000


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
        check_columns(schema, definition)
        self._urls = urls
        self._access = access
        self._definition = definition
        self._schema = schema
        self._bounds = bounds_of(options, definition)
        self._keys = _chosen_keys(self._bounds)
        self._bound = _bound(options.get("positionBound") or options.get("positionbound"))
        self._isolation = _isolation(options.get("isolation"), definition)
        self._partitions = self._chosen(options.get("partitions"))

    def _chosen(self, text: str | None) -> dict[int, list[Any] | None]:
        """The keys to read of each partition to read; None for all that the bounds choose."""
        numbers = range(self._definition.partitions)
        if self._keys is not None and self._definition.partitioner is Partitioner.MURMUR2:
            if text is not None:
                raise MalformedRequestError(
                    "give key or partitions, not both: the key determines its partition"
                )
            return _keys_by_partition(self._keys, self._definition)
        chosen = numbers if text is None else _numbers(text, self._definition)
        return dict.fromkeys(chosen, self._keys)

    def partitions(self) -> Sequence[InputPartition]:
        """The partitions to read; Spark calls it once per DataFrame.

        It checks the bounds of an index with the pods here: a failing task would be repeated. Each
        task finds out which pod has its partition.
        """
        if "index" in self._bounds:
            with self._store() as store:
                next(self._tables(store, next(iter(self._partitions)), limit=1))
        return [StorePartition(number) for number in self._partitions]

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Runs when a task gets the reader: Spark may stop it before its first row."""
        self.__dict__.update(state)
        end_quietly_when_stopped()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The partition's rows, as Arrow batches with exactly the columns of the schema."""
        assert isinstance(partition, StorePartition)
        schema = arrow_schema(self._schema)
        with self._store() as store:
            for table in self._tables(store, partition.number):
                columns = [column_of(table, field, self._definition) for field in schema]
                asked = pa.Table.from_arrays(columns, schema=schema)
                yield from asked.to_batches(max_chunksize=_ROWS_PER_BATCH)

    def _store(self) -> Store:
        access = self._access
        name = self._definition.name
        return Store(self._urls, name, token_file=access.token_file, ca_file=access.ca_file)

    def _tables(self, store: Store, partition: int, limit: int | None = None) -> Iterator[pa.Table]:
        keys = self._partitions[partition]
        if keys is None:
            yield from self._scan(store, partition, None, limit).arrow_tables()
            return
        for key in keys:
            yield from self._scan(store, partition, key, limit).arrow_tables()

    def _scan(
        self, store: Store, partition: int, key: Any | None, limit: int | None
    ) -> Scanned[Any]:
        """The scan of one key, or of the rows that the bounds choose, in a partition."""
        is_of_a_key = self._definition.row_type is not StoreType.KEY_VALUE and key is not None
        explicit = self._definition.partitioner is Partitioner.EXPLICIT
        options = ReadOptions(
            position_bound=self._bound,
            isolation=self._isolation,
            partition=partition if explicit and is_of_a_key else None,
        )
        partitions = None if is_of_a_key else [partition]
        bounds = self._bounds
        match self._definition.row_type:
            case StoreType.WINDOW:
                return store.windows(
                    key,
                    from_=bounds.get("from"),
                    to=bounds.get("to"),
                    key_from=bounds.get("keyFrom"),
                    key_to=bounds.get("keyTo"),
                    partitions=partitions,
                    options=options,
                )
            case StoreType.SESSION:
                return store.sessions(
                    key,
                    end_from=bounds.get("endFrom"),
                    start_to=bounds.get("startTo"),
                    key_from=bounds.get("keyFrom"),
                    key_to=bounds.get("keyTo"),
                    partitions=partitions,
                    options=options,
                )
            case _ if "prefix" in bounds:
                return store.prefix(bounds["prefix"], partitions=partitions, options=options)
            case _:
                return store.range(
                    bounds.get("from") if key is None else key,
                    bounds.get("to") if key is None else key,
                    index=bounds.get("index"),
                    limit=limit,
                    partitions=partitions,
                    options=options,
                )


def _chosen_keys(bounds: Mapping[str, Any]) -> list[Any] | None:
    """The keys that are named one by one, if any are."""
    if "key" in bounds:
        return [bounds["key"]]
    keys: list[Any] | None = bounds.get("keys")
    return keys


def _keys_by_partition(
    keys: Sequence[Any], definition: StoreDefinition
) -> dict[int, list[Any] | None]:
    """The keys of each partition that has any; without keys the first one has none of them."""
    serde = serde_of(definition.key_serde)
    found: dict[int, list[Any] | None] = {} if keys else {0: []}
    for key in keys:
        number = partition_of(serde.encode(serde.from_json(key)), definition.partitions)
        found[number] = [*(found.get(number) or []), key]
    return found


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
