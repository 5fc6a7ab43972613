"""Where a streaming query keeps its offset log, and the raw bytes of a batch's entry in it.

Inside `foreachBatch` the DataFrame's session is a clone that knows no queries: the query is found
through the session that this program started.
"""

from pathlib import Path
from typing import Any
from urllib.parse import urlparse

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from qss_core.errors import StoreError


def running_query(query_id: str) -> StreamingQuery | None:
    """The query with that id in this program, None where it has ended."""
    sessions = [
        SparkSession.getActiveSession(),
        getattr(SparkSession, "_instantiatedSession", None),
    ]
    for session in sessions:
        found = session.streams.get(query_id) if session is not None else None
        if found is not None:
            return found
    return None


class OffsetLog:
    """One query's offset log."""

    def __init__(self, query: StreamingQuery) -> None:
        """Asks the query for its checkpoint, once."""
        self._jvm_query = query._jsq.streamingQuery()  # noqa: SLF001 Python has no other way to it.
        root = str(self._jvm_query.resolvedCheckpointRoot())
        parsed = urlparse(root)
        self._local = Path(parsed.path) if parsed.scheme in ("", "file") else None
        self._root = root

    def raw(self, batch: int) -> bytes:
        """The entry's file as it is; Spark wrote it before the batch began."""
        if self._local is not None:
            try:
                return (self._local / "offsets" / str(batch)).read_bytes()
            except OSError as error:
                raise StoreError(
                    f"batch {batch} is not in the offset log: {error}; asynchronous progress "
                    "tracking cannot be used with a store"
                ) from error
        return self._through_hadoop(batch)

    def _through_hadoop(self, batch: int) -> bytes:
        session = self._jvm_query.sparkSession()
        started = SparkSession._instantiatedSession  # noqa: SLF001
        assert started is not None, "a query runs in a session"
        jvm: Any = started._jvm  # noqa: SLF001
        path = jvm.org.apache.hadoop.fs.Path(f"{self._root}/offsets/{batch}")
        files = path.getFileSystem(session.sessionState().newHadoopConf())
        stream = files.open(path)
        try:
            return bytes(jvm.org.apache.commons.io.IOUtils.toByteArray(stream))
        finally:
            stream.close()
