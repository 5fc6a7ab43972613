"""`format("queryablestate")`: a store as a batch source and sink of Spark."""

from collections.abc import Mapping
from typing import Any

from pyspark.sql.datasource import CaseInsensitiveDict, DataSource, DataSourceReader
from pyspark.sql.types import StructType

from qss_client.addresses import find_urls
from qss_client.writes.batch import WRITE_LIMITS, discover
from qss_core.errors import MalformedRequestError
from qss_core.model import StoreDefinition
from qss_spark.early_stop import end_quietly_when_stopped
from qss_spark.options import (
    BATCH_OPTION,
    READ_OPTIONS,
    WRITE_OPTIONS,
    Access,
    SinkBatch,
    check_names,
    columns_of,
    store_of,
)
from qss_spark.sink.batch_writer import StoreWriter, one_off_batch, one_off_writer
from qss_spark.source.columns import schema_of
from qss_spark.source.reader import StoreReader


class QueryableStateSource(DataSource):
    """The data source `queryablestate`, for batches.

    Options of a write: url, store, keyColumns, valueColumns, timestamp; its mode is append or
    overwrite.
    Options of a read: url, store, and one of key, keys (a JSON array), prefix, or from and to;
    index, whose keys are then from and to; keyFrom, keyTo, and the times of windows (from, to) and
    sessions (endFrom, startTo); partitions ("0,3"), positionBound (a token or JSON), isolation.
    Options of both: tokenFile and caFile are paths on every machine. url has one or more URLs with
    commas; without it QSS_URL or the local cluster of the driver's machine is used. The argument
    of `load` or `save` is another way to give the store's name.
    """

    options: CaseInsensitiveDict

    @classmethod
    def name(cls) -> str:
        return "queryablestate"

    def schema(self) -> StructType:
        """The columns key and value, and those that the store's format adds, in Spark's types."""
        return schema_of(definition_of(self.options))

    def reader(self, schema: StructType) -> DataSourceReader:
        """A reader of the columns in `schema`, which may be fewer than the store has."""
        end_quietly_when_stopped()
        check_names(self.options, READ_OPTIONS)
        access = Access.of(self.options)
        urls, _ = place_of(self.options)
        definition = definition_of(self.options)
        return StoreReader(dict(self.options), urls, definition, schema, access)

    def writer(self, schema: StructType, overwrite: bool) -> StoreWriter:  # noqa: FBT001 Spark's.
        """A writer of one batch: StoreSink's batch, or a one-off batch."""
        end_quietly_when_stopped()
        columns, access = columns_of(self.options), Access.of(self.options)
        given = self.options.get(BATCH_OPTION)
        if given is not None:
            return StoreWriter(SinkBatch.decode(given), columns, schema, access)
        check_names(self.options, WRITE_OPTIONS)
        urls, store = place_of(self.options)
        batch = one_off_batch(urls, store, access, replace=overwrite)
        return one_off_writer(batch, columns, schema, access)

    def streamWriter(self, schema: StructType, overwrite: bool) -> Any:  # noqa: ARG002, FBT001, N802
        """Raises MalformedRequestError, which names StoreSink."""
        store = self.options.get("store") or self.options.get("path") or "STORE"
        raise MalformedRequestError(
            'writeStream.format("queryablestate") does not exist: use '
            f'writeStream.foreachBatch(StoreSink("{store}", url=...)) '
            "of qss_spark, which takes the same columns and writes each batch exactly once"
        )

    def streamReader(self, schema: StructType) -> Any:  # noqa: ARG002, N802
        """Raises MalformedRequestError, which names spark.read."""
        raise MalformedRequestError(
            'readStream.format("queryablestate") does not exist: a store is read as a batch, with '
            'spark.read.format("queryablestate"), also inside foreachBatch of another stream'
        )


def definition_of(options: Mapping[str, str]) -> StoreDefinition:
    """The definition of the store that the options name, as a pod has it."""
    http = Access.of(options).http()
    try:
        urls, store = place_of(options)
        return discover(http, urls, store, WRITE_LIMITS).definition
    finally:
        http.close()


def place_of(options: Mapping[str, str]) -> tuple[tuple[str, ...], str]:
    """The URLs and the name of the store that the options name."""
    store = store_of(options)
    return find_urls(store, options.get("url") or None), store
