"""Writes the rotations of every aircraft, which are chains of flights, into a store as sessions.

    python rotations.py --url http://127.0.0.1:8080 --checkpoint /tmp/rotations
    spark-submit rotations.py --url ... --checkpoint ...

Flights of an aircraft belong to one rotation if at most four hours lie between departures. Spark's
own session windows appear when they are closed. This job writes a rotation with its first flight:
for each later flight it deletes the row of the shorter session and writes the merged session. The
store is `rotations.yaml` beside this file.
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

from qss_spark.flights_job import FlightsJob, run_flights_job

GAP_MS = 4 * 3_600_000
WATERMARK = "2 days"  # Longer than one file, which has a day of New York.
OUTPUT = "tailnum string, session_start long, session_end long, value string"  # A null deletes.
_STATE = "live string"

Session = dict[str, Any]


def rotations(flights: DataFrame) -> DataFrame:
    """Rows of sessions, in the order in which the sink has to write them."""
    departures = (
        flights.where(F.col("tailnum").isNotNull() & F.col("dep_time").isNotNull())
        .withColumn("departs", F.expr("time_hour + make_interval(0, 0, 0, 0, 0, minute)"))
        .withWatermark("departs", WATERMARK)
        .select(
            "departs",
            "tailnum",
            "carrier",
            "flight",
            "origin",
            "dest",
            "distance",
            F.unix_millis("departs").alias("departs_ms"),
        )
    )
    return departures.groupBy("tailnum").transformWithState(
        statefulProcessor=Rotations(),
        outputStructType=OUTPUT,
        outputMode="Update",
        timeMode="EventTime",
    )


class Rotations(StatefulProcessor):
    """Keeps the sessions of one aircraft that a flight may still lengthen, and a timer for them."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Opens the state; Spark calls this once in each task."""
        self._handle = handle
        self._live = handle.getValueState("live", _STATE)

    def handleInputRows(  # noqa: N802 Spark's name.
        self,
        key: Any,
        rows: Iterator[Row],
        timerValues: TimerValues,  # noqa: ARG002, N803
    ) -> Iterator[Row]:
        """Adds new flights; returns deletes of replaced sessions, then the new sessions."""
        before = self._sessions()
        after = [dict(session) for session in before]
        for row in sorted(rows, key=lambda row: row.departs_ms):
            after = merged(after, session_of(row))
        if not before:
            self._handle.registerTimer(closes_ms(after))
        self._live.update((json.dumps(after),))
        return changes(key[0], before, after)

    def handleExpiredTimer(  # noqa: N802
        self,
        key: Any,  # noqa: ARG002
        timerValues: TimerValues,  # noqa: N803
        expiredTimerInfo: ExpiredTimerInfo,  # noqa: ARG002, N803
    ) -> Iterator[Row]:
        """Drops the state of sessions that no flight can lengthen; the store keeps their rows."""
        watermark = timerValues.getCurrentWatermarkInMs()
        live = [one for one in self._sessions() if one["end"] + GAP_MS >= watermark]
        if live:
            self._live.update((json.dumps(live),))
            self._handle.registerTimer(closes_ms(live))
        else:
            self._live.clear()
        return iter(())

    def _sessions(self) -> list[Session]:
        held = self._live.get()
        return json.loads(held[0]) if held else []

    def close(self) -> None: ...


def session_of(row: Row) -> Session:
    """A session of one flight."""
    departs = [row.departs_ms, f"{row.carrier}{row.flight}"]
    return {
        "start": row.departs_ms,
        "end": row.departs_ms,
        "flights": 1,
        "distance": row.distance,
        "first": [*departs, row.origin],
        "last": [*departs, row.dest],
    }


def merged(sessions: list[Session], new: Session) -> list[Session]:
    """Adds a session; it is merged with all sessions within the gap, as in Kafka."""
    apart = []
    for session in sessions:
        near = session["start"] - GAP_MS <= new["end"] and new["start"] <= session["end"] + GAP_MS
        if not near:
            apart.append(session)
            continue
        new = {
            "start": min(session["start"], new["start"]),
            "end": max(session["end"], new["end"]),
            "flights": session["flights"] + new["flights"],
            "distance": session["distance"] + new["distance"],
            "first": min(session["first"], new["first"]),
            "last": max(session["last"], new["last"]),
        }
    return [*apart, new]


def closes_ms(sessions: list[Session]) -> int:
    """The time from which no flight can lengthen any of these sessions."""
    ends: list[int] = [session["end"] for session in sessions]
    return max(ends) + GAP_MS + 1


def changes(tailnum: str, before: list[Session], after: list[Session]) -> Iterator[Row]:
    """A delete for each session that is gone, then a row for each new or changed session."""
    bounds = {(session["start"], session["end"]) for session in after}
    for session in before:
        if (session["start"], session["end"]) not in bounds:
            yield _row(tailnum, session, None)
    for session in after:
        if session not in before:
            yield _row(tailnum, session, json.dumps(value_of(session)))


def _row(tailnum: str, session: Session, value: str | None) -> Row:
    return Row(
        tailnum=tailnum, session_start=session["start"], session_end=session["end"], value=value
    )


def value_of(session: Session) -> dict[str, Any]:
    """The value of a session in the store."""
    return {
        "flights": session["flights"],
        "distance": session["distance"],
        "origin": session["first"][2],
        "dest": session["last"][2],
    }


JOB = FlightsJob(
    "rotations",
    rotations,
    key=("tailnum",),
    files_per_trigger=31,  # Each trigger reads and writes an aircraft's state once.
)

if __name__ == "__main__":
    run_flights_job(JOB, __doc__.splitlines()[0])
