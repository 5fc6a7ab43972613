"""Prints a job's progress: one JSON line on standard output after each batch."""

import json
import sys

from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)


class ProgressLines(StreamingQueryListener):
    """Prints `{"batch": 3, "rows": 4500, "seconds": 0.6}`."""

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 Spark's name.
        ...

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        ...

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        """Does nothing: the exit code tells."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        progress = event.progress
        line = {
            "batch": progress.batchId,
            "rows": progress.numInputRows,
            "seconds": progress.batchDuration / 1000,
        }
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()
