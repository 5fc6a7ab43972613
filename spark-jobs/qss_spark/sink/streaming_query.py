"""Finds the running streaming query, and reads a batch's raw entry in its offset log.

Inside `foreachBatch` the DataFrame's session is a clone without queries; it shares with the
original session a state that has all queries.
"""

import re
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from qss_core.errors import StoreError

_LOCAL = re.compile("file:(?://)?(?=/)|(?=/)")


class RunningQuery:
    """A running streaming query: the JVM's StreamExecution."""

    def __init__(self, session: SparkSession, query_id: str) -> None:
        """`session` is any session of the program. Raises StoreError if the query does not run."""
        self._session = session
        jvm: Any = session._jvm  # noqa: SLF001 Python has no other way to it.
        queries = session._jsparkSession.sharedState().activeStreamingQueries()  # noqa: SLF001
        self._query = queries.get(jvm.java.util.UUID.fromString(query_id))
        if self._query is None:
            raise StoreError(f"the streaming query {query_id} does not run in this program")

    @property
    def output_mode(self) -> str:
        return str(self._query.outputMode()).lower()

    @property
    def has_ended(self) -> bool:
        """Whether Spark says that the query has ended; without an answer it may still run."""
        try:
            return not self._query.isActive()
        except (Py4JError, OSError):
            return False

    def offset_log(self) -> "OffsetLog":
        """The offset log of a query, found by the query's checkpoint."""
        return OffsetLog(self._session, str(self._query.resolvedCheckpointRoot()))


class OffsetLog:
    """The offset log of one checkpoint."""

    def __init__(self, session: SparkSession, root: str) -> None:
        """`root` is a Hadoop path, without escapes."""
        self._session = session
        self._root = root
        scheme = _LOCAL.match(root)
        self._local = Path(root[scheme.end() :]) if scheme else None

    @property
    def directory(self) -> Path | None:
        """The checkpoint, if it is a directory of this machine."""
        return self._local

    def raw(self, batch: int) -> bytes:
        """The unchanged file of the entry, which Spark wrote before the batch began."""
        if self._local is not None:
            try:
                return (self._local / "offsets" / str(batch)).read_bytes()
            except OSError as error:
                raise StoreError(
                    f"batch {batch} is not in the offset log: {error}; asynchronous progress "
                    "tracking cannot be used with a store"
                ) from error
        return self.read_through_hadoop(batch)

    def read_through_hadoop(self, batch: int) -> bytes:
        jvm: Any = self._session._jvm  # noqa: SLF001
        path = jvm.org.apache.hadoop.fs.Path(f"{self._root}/offsets/{batch}")
        state = self._session._jsparkSession.sessionState()  # noqa: SLF001
        stream = path.getFileSystem(state.newHadoopConf()).open(path)
        try:
            return bytes(jvm.org.apache.commons.io.IOUtils.toByteArray(stream))
        finally:
            stream.close()
