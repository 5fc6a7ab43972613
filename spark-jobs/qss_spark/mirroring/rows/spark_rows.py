"""Reads a part of a query's state with Spark's own reader, in the columns of `state.tables`.

The reader is the data source `statestore`. Only this module of the package needs Spark.
"""

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from qss_core.errors import MalformedRequestError
from qss_spark.state.inventory import TIMER_FAMILIES, Place
from qss_spark.state.tables import Shape

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import DataType

_DEFAULT, _VALUE = "default", "value"


def read_by_spark(checkpoint: Path, batch: int, place: Place, columns: pa.Schema) -> pa.Table:
    """The keys and values of a place after a batch, cast to `columns`: `key` and `value`.

    Raises MalformedRequestError where Spark is not installed, or cannot read the state.
    """
    try:
        from qss_spark.session import SHORT_RUN, local_session
    except ImportError as error:
        raise MalformedRequestError(
            "a comparison needs Spark: pip install 'queryable-state[cli,mirror,spark]'"
        ) from error
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    session = local_session("qss-mirror-verify", configuration=SHORT_RUN)
    try:
        frame = _frame(session, checkpoint, batch, place)
        return pa.table(_renamed(frame, columns).toArrow()).cast(columns)
    except (PySparkException, Py4JError) as error:
        said = str(getattr(error, "java_exception", None) or error).strip().splitlines()[0]
        raise MalformedRequestError(
            f"Spark cannot read the state of batch {batch}: {said}"
        ) from error
    finally:
        session.stop()


def _frame(session: "SparkSession", checkpoint: Path, batch: int, place: Place) -> "DataFrame":
    from pyspark.sql import functions as F  # noqa: N812 the field's own habit.

    options = {"batchId": str(batch), "operatorId": str(place.operator.number)}
    name = place.store.name if place.schema.name == _DEFAULT else place.schema.name
    is_processor = bool(place.operator.properties.get("stateVariables"))
    if name in TIMER_FAMILIES:
        options["readRegisteredTimers"] = "true"
    elif is_processor:  # A list in one row, and a row for each key of a map.
        is_list = place.shape is Shape.LIST
        options |= {"stateVarName": name, "flattenCollectionTypes": str(not is_list).lower()}
    elif name != _DEFAULT:
        options["storeName"] = name
    frame = session.read.format("statestore").options(**options).load(str(checkpoint))
    if name in TIMER_FAMILIES:
        return frame.withColumn(_VALUE, F.struct(F.lit(None)))
    if place.shape is Shape.LIST and not is_processor:  # The reader has a row for each element.
        return frame.groupBy("key").agg(F.collect_list(_VALUE).alias(_VALUE))
    return frame


def _renamed(frame: "DataFrame", columns: pa.Schema) -> "DataFrame":
    """The columns `key` and `value`, with the names of `columns`: Spark's names may repeat."""
    from pyspark.sql import functions as F  # noqa: N812 the field's own habit.

    types = {one.name: one.dataType for one in frame.schema}
    found = [name for name in frame.columns if name != "partition_id"]
    key, value = found[:-1], found[-1]
    wanted_key, wanted_value = (columns.field(name).type for name in ("key", "value"))
    if len(key) > 1:  # The grouping key, and the key of the user's map or the time of a timer.
        parts = [
            _cast(name, types[name], one.type).alias(one.name)
            for name, one in zip(key, wanted_key, strict=True)
        ]
        made = F.struct(*parts)
    else:
        made = _cast(key[0], types[key[0]], wanted_key)
    kept = _cast(value, types[value], wanted_value)
    return frame.select(made.alias("key"), kept.alias(_VALUE))


def _cast(name: str, kind: "DataType", wanted: pa.DataType) -> "Column":
    return with_months(name, kind).cast(_named(_months_as(kind, "int"), wanted))


def with_months(name: str, kind: "DataType") -> "Column":
    """A column whose year-month intervals are numbers of months: PySpark reads no such type."""
    from pyspark.sql import functions as F  # noqa: N812 the field's own habit.

    # An interval of years would become the number of its years.
    return F.col(name).cast(_months_as(kind, "interval month")).cast(_months_as(kind, "int"))


def _months_as(kind: "DataType", instead: str) -> "DataType":
    """A type with another one in the place of year-month intervals."""
    from pyspark.sql.types import (
        ArrayType,
        DataType,
        MapType,
        StructField,
        StructType,
        YearMonthIntervalType,
    )

    match kind:
        case YearMonthIntervalType():
            return DataType.fromDDL(instead)
        case ArrayType():
            return ArrayType(_months_as(kind.elementType, instead), kind.containsNull)
        case MapType():
            key, value = (_months_as(one, instead) for one in (kind.keyType, kind.valueType))
            return MapType(key, value, kind.valueContainsNull)
        case StructType():
            of = [(one, _months_as(one.dataType, instead)) for one in kind]
            return StructType([StructField(one.name, made, one.nullable) for one, made in of])
    return kind


def _named(kind: "DataType", wanted: pa.DataType) -> "DataType":
    """Spark's type with the names of an Arrow type; the members of a row keep their order."""
    from pyspark.sql.types import ArrayType, StructField, StructType

    if isinstance(kind, ArrayType) and pa.types.is_list(wanted):
        return ArrayType(_named(kind.elementType, wanted.value_type), kind.containsNull)
    if isinstance(kind, StructType) and pa.types.is_struct(wanted):
        return StructType(
            [
                StructField(one.name, _named(held.dataType, one.type), held.nullable)
                for held, one in zip(kind, wanted, strict=True)
            ]
        )
    return kind
