"""The stateful queries whose checkpoints `spark_state` makes."""

from typing import Any

PROCESSORS = ("processor", "ttl", "timers")
SCALA_PROCESSOR, SCALA_GROUPS = "scala-processor", "scala-groups"  # See spark_state.scala.
VARIABLES = {
    "processor": ("last", "delays", "ports"),
    "ttl": ("last", "delays", "ports"),
    "timers": ("fired",),
    SCALA_PROCESSOR: ("last", "count", "delays", "ports"),
}
WITH_TIMERS = ("ttl", "timers")  # Spark keeps timers where it has a time, also none.
# With column families, which only RocksDB has.
JOIN_3 = "join-format-3"  # Since Spark 4.1.
JOIN_4 = "join-format-4"  # Since Spark 4.3: rows are found by their times.
QUERIES = (
    *("aggregation", "of-all", "windows", "sessions", "dedup", "dedup-watermark", "groups", "join"),
    *("collected", "intervals", JOIN_3, JOIN_4),
    *PROCESSORS,
)
SCALA = (SCALA_PROCESSOR, SCALA_GROUPS)
JOIN_FORMATS = {"join": "2", JOIN_3: "3", JOIN_4: "4"}
_SINCE = {JOIN_3: "4.1", JOIN_4: "4.3"}  # The versions of Spark.
_ROCKSDB_ONLY = (JOIN_3, JOIN_4, *PROCESSORS, SCALA_PROCESSOR)
_TTL_MS = 2500  # With a batch each second, some rows of the newest batches are left.
SCHEMA = (
    "k string, n long, d double, t timestamp, b byte, s short, i int, z boolean, f float, y date, "
    "u timestamp_ntz, x binary, m decimal(12,3), w decimal(30,5), a array<string>, "
    "p map<string,long>, r struct<q:string,v:array<int>>, o string"
)


def can_run(query: str, way: str, version: str) -> bool:
    """Whether Spark of a version runs a query with this way of keeping state."""
    return version >= _SINCE.get(query, "") and not (way == "hdfs" and query in _ROCKSDB_ONLY)


def query_of(rows: Any, query: str) -> tuple[Any, str]:
    """The rows of a query, and its output mode."""
    from pyspark.sql import functions as F  # noqa: N812 the field's own habit.

    late = rows.withWatermark("t", "10 seconds")
    match query:
        case "aggregation" | "collected" | "intervals":
            return _grouped(rows, query), "update"
        case "of-all":
            return rows.agg(F.count("*"), F.max("n")), "update"
        case "windows":
            return late.groupBy(F.window("t", "30 seconds"), "k").count(), "append"
        case "sessions":
            return late.groupBy(F.session_window("t", "5 seconds"), "k").count(), "append"
        case "dedup":
            return rows.dropDuplicates(["k", "b"]), "append"
        case "dedup-watermark":
            return late.dropDuplicatesWithinWatermark(["k"]), "append"
        case "groups":
            return _groups(rows), "update"
        case "timers":
            return _timed(late), "update"
    if query in JOIN_FORMATS:
        return _join(rows, query), "append"
    return _fading(rows) if query == "ttl" else _processor(rows), "update"


def _join(rows: Any, query: str) -> Any:
    from pyspark.sql import functions as F  # noqa: N812

    if query == JOIN_4:  # Several rows of a key have one time: their value is a list.
        rows = rows.withColumn("t", F.date_trunc("minute", "t"))
    late = rows.withWatermark("t", "10 seconds")
    other = late.select(F.col("k").alias("k2"), F.col("t").alias("t2"), "n", "w", "a")
    within = F.expr("k = k2 and t2 >= t and t2 <= t + interval 1 minute")
    return late.join(other.alias("o"), within, "leftOuter").select("k", "t2")


def _grouped(rows: Any, query: str) -> Any:
    """Rows by key: their buffers, two objects that Spark has serialized, or intervals."""
    from pyspark.sql import functions as F  # noqa: N812 the field's own habit.

    if query == "aggregation":
        names = [one.partition(" ")[0] for one in SCHEMA.split(", ") if one[0] not in "k"]
        sums = [F.count("*"), F.sum("n"), F.avg("d"), F.max("m"), F.max("w")]
        return rows.groupBy("k").agg(*sums, F.max_by(F.struct(*names), "n"))
    if query == "collected":
        objects = [F.collect_list("n"), F.percentile_approx("d", 0.5)]
        return rows.groupBy("k").agg(objects[0], F.count("*"), objects[1])
    months = F.expr("if(b = 3, null, make_ym_interval(1, b - 5))").alias("months")
    time = F.expr("make_dt_interval(b - 4, n, 0, d)").alias("time")
    other = F.expr("struct(cast(months as interval year) y, cast(time as interval day) d, n)")
    inside = F.struct(other.alias("other"), F.array("time", F.lit(None)).alias("times"))
    given = rows.select("k", "n", months, time)
    return given.groupBy("months", "time").agg(F.max("time"), F.max_by(inside, "n"))


def _fading(rows: Any) -> Any:
    """Variables whose values have a time to live; each file is the last one for one key."""
    import pandas as pd  # type: ignore[import-untyped]
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor

    class Fading(StatefulProcessor):
        def init(self, handle: Any) -> None:
            self._last = handle.getValueState("last", "n long, d double", _TTL_MS)
            self._delays = handle.getListState("delays", "d double, q string", _TTL_MS)
            self._ports = handle.getMapState("ports", "p string", "c long", _TTL_MS)

        def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:  # noqa: N802, N803
            for frame in rows:
                for row in frame.itertuples():
                    file = row.n // 100
                    if key[0] in (f"k{file}", "k4"):
                        self._last.update((row.n, row.d))
                    self._delays.appendValue((row.d, f"q{row.n}"))
                    self._ports.updateValue((f"p{file}",), (row.n,))
            yield pd.DataFrame({"k": [key[0]]})

        def close(self) -> None:
            """The processor has nothing to close."""

    grouped = rows.select("k", "n", "d").groupBy("k")
    return grouped.transformWithStateInPandas(Fading(), "k string", "update", "processingTime")


def _processor(rows: Any) -> Any:
    import pandas as pd
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor

    class Delays(StatefulProcessor):
        def init(self, handle: Any) -> None:
            self._last = handle.getValueState("last", "n long, d double")
            self._delays = handle.getListState("delays", "d double, q string")
            self._ports = handle.getMapState("ports", "p string", "c long")

        def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:  # noqa: N802, N803
            for frame in rows:
                for row in frame.itertuples():
                    self._last.update((row.n, row.d))
                    self._delays.appendValue((row.d, f"q{row.n}"))
                    port = (f"p{row.n % 3}",)
                    seen = self._ports.getValue(port)[0] if self._ports.containsKey(port) else 0
                    self._ports.updateValue(port, (seen + 1,))
            if len(held := list(self._delays.get())) > 6:
                self._delays.put(held[-4:])
            if key[0] == "k3":
                self._last.clear()
            yield pd.DataFrame({"k": [key[0]]})

        def close(self) -> None:
            """The processor has nothing to close."""

    grouped = rows.select("k", "n", "d").groupBy("k")
    return grouped.transformWithStateInPandas(Delays(), "k string", "update", "none")


def _groups(rows: Any) -> Any:
    import pandas as pd
    from pyspark.sql.streaming.state import GroupStateTimeout

    def counted(key: Any, frames: Any, state: Any) -> Any:
        seen = sum(len(frame) for frame in frames)
        held = state.get[0] if state.exists else 0
        state.update((held + seen, f"s{key[0]}"))
        yield pd.DataFrame({"k": [key[0]]})

    grouped = rows.select("k", "n").groupBy("k")
    return grouped.applyInPandasWithState(
        counted, "k string", "c long, q string", "update", GroupStateTimeout.NoTimeout
    )


def _timed(rows: Any) -> Any:
    """A timer for each row; those of the first two files fire."""
    import pandas as pd
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor

    class Timed(StatefulProcessor):
        def init(self, handle: Any) -> None:
            self._handle = handle
            self._fired = handle.getValueState("fired", "n long")

        def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:  # noqa: N802, N803
            now = timerValues.getCurrentWatermarkInMs()
            for frame in rows:
                for row in frame.itertuples():
                    self._handle.registerTimer(int(row.t.timestamp() * 1000))
            yield pd.DataFrame({"k": [f"{key[0]} {now}"]})

        def handleExpiredTimer(  # noqa: N802
            self,
            key: Any,
            timerValues: Any,  # noqa: N803
            expiredTimerInfo: Any,  # noqa: N803
        ) -> Any:
            fired = self._fired.get()[0] if self._fired.exists() else 0
            self._fired.update((fired + 1,))
            yield pd.DataFrame({"k": [key[0]]})

        def close(self) -> None:
            """The processor has nothing to close."""

    grouped = rows.select("k", "n", "t").groupBy("k")
    return grouped.transformWithStateInPandas(Timed(), "k string", "update", "eventTime")
