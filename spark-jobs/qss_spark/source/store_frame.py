"""`read_store`: a DataFrame of a store whose `filter` narrows the read, and `write_store`.

Spark's own push-down for Python data sources (`pushFilters`) is not used: it keeps a filter at the
source, so that a later query on the same DataFrame lacks rows. Here each filter makes a source of
its own, with options for the keys and the times that the filter lets through, and Spark applies the
whole filter to what the source reads.
"""

from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame
from pyspark.sql.column import Column
from pyspark.sql.types import StructType

from qss_core.model import StoreDefinition
from qss_spark.options import READ_OPTIONS, check_names
from qss_spark.source.datasource import QueryableStateSource, definition_of
from qss_spark.source.pushed_filters import options_of
from qss_spark.source.query_plans import is_the_same_later, predicates_of, with_source

_FORMAT = QueryableStateSource.name()


def read_store(
    spark: SparkSession, store: str, *, schema: StructType | str | None = None, **options: Any
) -> DataFrame:
    """A store as a DataFrame of which `filter` and `where` read only rows that they can need.

    schema: the wanted columns, as `DataFrameReader.schema` takes them. options: those of the data
    source; `from_` is `from`. A filter narrows the read by `key = ...`, `key IN (...)`, ranges and
    prefixes of keys, and the start and end of windows and sessions; it is put directly on this
    frame, not on a view or a selection of it. A filter with the current time narrows nothing, and
    nothing is narrowed in Spark Connect. Raises UnknownParameterError and the errors of discovery.
    """
    given = {"store": store} | {name.rstrip("_"): str(one) for name, one in options.items()}
    check_names(given, READ_OPTIONS)
    read = _StoreRead(given, schema, definition_of(given))
    loaded = read.load(spark, {})
    if not isinstance(loaded, ClassicDataFrame):
        return loaded
    return StoreFrame(loaded._jdf, spark, read, {})  # noqa: SLF001


def write_store(rows: DataFrame, store: str, *, mode: str = "append", **options: Any) -> None:
    """Writes a DataFrame to a store in one batch: `append`, or `overwrite`, which replaces all.

    options: those of the data source. Raises the errors of `df.write.save`.
    """
    given = {name: str(one) for name, one in options.items()}
    rows.write.format(_FORMAT).options(**given).mode(mode).save(store)


class _StoreRead:
    """A read of a store: the user's options and schema, and the store's definition."""

    def __init__(
        self,
        options: Mapping[str, str],
        schema: StructType | str | None,
        definition: StoreDefinition,
    ) -> None:
        self.options = options
        self.schema = schema
        self.definition = definition

    def load(self, spark: SparkSession, narrowed: Mapping[str, str]) -> DataFrame:
        reader = spark.read.format(_FORMAT).options(**{**self.options, **narrowed})
        return (reader if self.schema is None else reader.schema(self.schema)).load()


class StoreFrame(ClassicDataFrame):
    """A store's DataFrame, perhaps filtered; everything but `filter` and `where` is Spark's."""

    def __new__(cls, *_: Any) -> "StoreFrame":
        return object.__new__(cls)

    def __init__(
        self, java_frame: Any, spark: SparkSession, read: _StoreRead, narrowed: Mapping[str, str]
    ) -> None:
        super().__init__(java_frame, spark)
        self._read = read
        self._narrowed = dict(narrowed)

    @property
    def narrowed(self) -> dict[str, str]:
        """The options that the filters have added to the read; empty if all rows are read."""
        return dict(self._narrowed)

    def filter(self, condition: Column | str) -> DataFrame:
        """The rows that fulfil a condition; reads only keys and times that it lets through."""
        filtered = super().filter(condition)
        java_frame = filtered._jdf  # noqa: SLF001
        plan = java_frame.queryExecution()
        read = self._read
        jvm: Any = self.sparkSession._jvm  # noqa: SLF001 Spark's plans have no other door.
        narrowed = {}
        if is_the_same_later(plan.analyzed(), jvm):
            predicates = predicates_of(plan.optimizedPlan(), jvm)
            narrowed = options_of(predicates, read.definition, read.options)
        if not narrowed:
            return StoreFrame(java_frame, self.sparkSession, read, {})
        fresh = read.load(self.sparkSession, narrowed)
        assert isinstance(fresh, ClassicDataFrame)
        source = fresh._jdf.queryExecution().analyzed()  # noqa: SLF001
        rebuilt = with_source(plan.analyzed(), source)
        if rebuilt is None:
            return filtered
        session = self.sparkSession._jsparkSession  # noqa: SLF001
        java_frame = jvm.org.apache.spark.sql.classic.Dataset.ofRows(session, rebuilt)
        return StoreFrame(java_frame, self.sparkSession, read, narrowed)

    def where(self, condition: Column | str) -> DataFrame:
        """Another name of `filter`, as in Spark."""
        return self.filter(condition)
