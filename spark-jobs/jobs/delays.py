"""Keeps the arrivals of every aircraft that were an hour late in its state, and writes no store.

    python delays.py --checkpoint /tmp/delays
    qss mirror /tmp/delays/checkpoint --file delays-mirror.yaml
    spark-submit delays.py --checkpoint ...

The state is asked in stores that `qss mirror` fills beside the job: `delays.yaml` beside this file
has the stores, and `delays-mirror.yaml` says which variable goes into which store. The job knows
nothing of them. If it or the mirror is killed, start it again with the same checkpoint.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.stateful_processor import (
    StatefulProcessor,
    StatefulProcessorHandle,
    TimerValues,
)

from qss_spark.flights_job import StateJob, run_state_job

LATE_MIN = 60  # An arrival is late from so many minutes on.
RECENT_MAX = 10
_LAST = "departs string, flight string, origin string, dest string, delay double"
_RECENT = "departs string, delay double"


def delays(flights: DataFrame) -> DataFrame:
    """Returns no rows: the delays of each aircraft stay in the state."""
    late = flights.where(F.col("tailnum").isNotNull() & (F.col("arr_delay") >= LATE_MIN)).select(
        "tailnum",
        F.date_format(
            F.expr("time_hour + make_interval(0, 0, 0, 0, 0, minute)"), "yyyy-MM-dd'T'HH:mm'Z'"
        ).alias("departs"),
        F.concat("carrier", F.col("flight").cast("string")).alias("flight"),
        "origin",
        "dest",
        F.col("arr_delay").alias("delay"),
    )
    return late.groupBy("tailnum").transformWithState(
        statefulProcessor=Delays(),
        outputStructType="tailnum string",
        outputMode="Update",
        timeMode="None",
    )


class Delays(StatefulProcessor):
    """Keeps three variables of an aircraft; the files come in the order of their days."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Opens the state; Spark calls this once in each task."""
        self._last = handle.getValueState("last", _LAST)
        self._recent = handle.getListState("recent", _RECENT)
        self._airports = handle.getMapState(
            "airports", "airport string", "flights long, delay double"
        )

    def handleInputRows(  # noqa: N802 Spark's name.
        self,
        key: Any,  # noqa: ARG002
        rows: Iterator[Row],
        timerValues: TimerValues,  # noqa: ARG002, N803
    ) -> Iterator[Row]:
        """Adds the flights to the state of their aircraft; returns no row."""
        late = sorted((row.departs, row.flight, row.origin, row.dest, row.delay) for row in rows)
        self._last.update(late[-1])
        recent = [*self._recent.get(), *((one[0], one[4]) for one in late)]
        self._recent.put([tuple(one) for one in recent[-RECENT_MAX:]])
        for airport, (flights, delay) in by_airport((one[3], one[4]) for one in late).items():
            before = self._airports.getValue((airport,)) or (0, 0.0)
            self._airports.updateValue((airport,), (before[0] + flights, before[1] + delay))
        return iter(())

    def close(self) -> None: ...


def by_airport(arrivals: Iterable[tuple[str, float]]) -> dict[str, tuple[int, float]]:
    """For each airport the number of arrivals, and the sum of their delays in minutes."""
    found: dict[str, tuple[int, float]] = {}
    for airport, delay in arrivals:
        flights, total = found.get(airport, (0, 0.0))
        found[airport] = flights + 1, total + delay
    return found


JOB = StateJob(
    "delays",
    delays,
    files_per_trigger=61,  # Each trigger reads and writes the state of nearly every aircraft.
)

if __name__ == "__main__":
    run_state_job(JOB, __doc__.splitlines()[0])
