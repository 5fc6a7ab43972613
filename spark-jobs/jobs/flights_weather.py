"""Joins every flight with the weather of its hour, and stores both sides, too (KIP-1300).

    python flights_weather.py --checkpoint /tmp/flights-weather \\
        --url hourly-flights=http://127.0.0.1:8080 --url hourly-weather=... \\
        --url flights-weather=...

A stream-stream join of Spark keeps both sides in buffers that no other program can read. Here both
sides are stores. A key may have several rows in one hour; a header of each row names its file and
line. One streaming query writes both sides and the result in the same batch.
"""

import json
from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.stateful_processor import (
    ExpiredTimerInfo,
    StatefulProcessor,
    StatefulProcessorHandle,
    TimerValues,
)

from qss_spark.flights_job import JoinJob, run_join_job

FLIGHTS, WEATHER, JOINED = "hourly-flights", "hourly-weather", "flights-weather"
HOUR_MS = 3_600_000
WATERMARK = "2 days"  # Longer than one file, which has a day of New York.
OUTPUT = (
    "store string, key string, window_start long, value string, "
    "headers array<struct<key: string, value: binary>>"
)
_FLIGHT = ("carrier", "flight", "tailnum", "dest", "dep_delay")
_WEATHER = ("temp", "wind_speed", "precip", "visib")

Side = list[list[str]]  # Rows of one side: [source, value as JSON].


def flights_weather(flights: DataFrame, weather: DataFrame) -> DataFrame:
    """Rows of both sides and of the result; the column `store` names the store of a row."""
    return (
        _side(flights, FLIGHTS, _FLIGHT)
        .union(_side(weather, WEATHER, _WEATHER))
        .groupBy("origin", "hour_ms")
        .transformWithState(
            statefulProcessor=HourlyJoin(),
            outputStructType=OUTPUT,
            outputMode="Update",
            timeMode="EventTime",
        )
    )


def _side(rows: DataFrame, name: str, columns: tuple[str, ...]) -> DataFrame:
    return rows.withWatermark("time_hour", WATERMARK).select(
        "time_hour",
        "origin",
        F.unix_millis("time_hour").alias("hour_ms"),
        F.lit(name).alias("side"),
        "source",
        F.to_json(F.struct(*columns), {"ignoreNullFields": "false"}).alias("value"),
    )


class HourlyJoin(StatefulProcessor):
    """Keeps both sides of one hour of an airport until the watermark has passed the hour."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Opens the state; Spark calls this once in each task."""
        self._handle = handle
        self._sides = handle.getValueState("sides", "sides string")

    def handleInputRows(  # noqa: N802 Spark's name.
        self,
        key: Any,
        rows: Iterator[Row],
        timerValues: TimerValues,  # noqa: ARG002, N803
    ) -> Iterator[Row]:
        """Returns each new row, and its pairs with the rows of the other side."""
        held = self._sides.get()
        sides: dict[str, Side] = json.loads(held[0]) if held else {FLIGHTS: [], WEATHER: []}
        if held is None:
            self._handle.registerTimer(key[1] + HOUR_MS)
        found = list(joined(key[0], key[1], sides, rows))
        self._sides.update((json.dumps(sides),))
        return iter(found)

    def handleExpiredTimer(  # noqa: N802
        self,
        key: Any,  # noqa: ARG002
        timerValues: TimerValues,  # noqa: ARG002, N803
        expiredTimerInfo: ExpiredTimerInfo,  # noqa: ARG002, N803
    ) -> Iterator[Row]:
        """Drops the state of the hour; the stores keep its rows until their retention ends."""
        self._sides.clear()
        return iter(())

    def close(self) -> None: ...


def joined(origin: str, hour_ms: int, sides: dict[str, Side], rows: Iterator[Row]) -> Iterator[Row]:
    """Yields each new row and its joined rows; appends the new row to its side in `sides`."""
    for row in rows:
        yield _row(row.side, origin, hour_ms, row.value, [row.source])
        others = sides[WEATHER if row.side == FLIGHTS else FLIGHTS]
        for other_source, other in others:
            pair = [(row.source, row.value), (other_source, other)]
            if row.side == WEATHER:
                pair.reverse()  # The flight stands before the weather.
            value = json.dumps(json.loads(pair[0][1]) | json.loads(pair[1][1]))
            yield _row(JOINED, origin, hour_ms, value, [source for source, _ in pair])
        sides[row.side].append([row.source, row.value])


def _row(store: str, origin: str, hour_ms: int, value: str, sources: list[str]) -> Row:
    headers = [Row(key="source", value=source.encode()) for source in sources]
    return Row(store=store, key=origin, window_start=hour_ms, value=value, headers=headers)


JOB = JoinJob(
    "flights-weather", flights_weather, stores=(FLIGHTS, WEATHER, JOINED), files_per_trigger=31
)

if __name__ == "__main__":
    run_join_job(JOB, __doc__.splitlines()[0])
