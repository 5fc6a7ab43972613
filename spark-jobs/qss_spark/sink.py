"""`StoreSink`: a streaming query writes a store, exactly once, through `foreachBatch`.

Small batches are collected and staged by the driver in one request a pod; others are staged by the
executors through the data source. Either way the driver commits, with the position that Spark wrote
to its offset log before the batch began.
"""

import logging
import threading
from contextlib import suppress
from typing import Literal

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F  # noqa: N812 the field's own habit.
from pyspark.sql.streaming.query import StreamingQuery

from qss_client.http_sync import SyncHttp
from qss_client.routing import RetryLimits
from qss_client.writing import (
    WRITE_LIMITS,
    Run,
    Staged,
    abort,
    discover,
    open_writer,
    renew,
)
from qss_core.errors import BatchClosedError, MalformedRequestError, StoreError
from qss_core.model import StoreDefinition
from qss_spark.offset_log import OffsetLog, running_query
from qss_spark.options import BATCH_OPTION, SinkBatch
from qss_spark.positions import read_offsets
from qss_spark.rows import BESIDE_COLUMNS, MADE_JSON_COLUMN, Columns, RowEncoder
from qss_spark.writer import commit_batch, stage_rows

_LOG = logging.getLogger(__name__)
_COLLECT_BELOW_RECORDS = 10_000
_COLLECT_BELOW_BYTES = 8 * 1024 * 1024
_RENEW_INTERVAL_S = 60.0

OnNewCheckpoint = Literal["refuse", "takeOver"]
Collect = Literal["auto", "always", "never"]


class StoreSink:
    """Give it to `foreachBatch`: `writeStream.foreachBatch(StoreSink("word-counts", url=...))`.

    url: the query or the internal port of any pod of the store.
    writer: a name of its own for each query that writes the store; by default the store's name.
    onNewCheckpoint: what to do when the writer belongs to another checkpoint: "refuse", or
        "takeOver", which starts a new generation and fences the older query for good.
    replace: each batch replaces all rows of the store (complete mode needs it).
    collect: stage through the driver "always", "never", or ("auto") when batches are small.
    keyColumns, valueColumns: the columns of key and value; several value columns become a JSON.

    Raises what the store answers (qss_core.errors), which ends the query: started again, it goes on
    with the same batch.
    """

    def __init__(
        self,
        store: str,
        url: str | None = None,
        writer: str | None = None,
        onNewCheckpoint: OnNewCheckpoint = "refuse",  # noqa: N803 Spark's options look like this.
        *,
        replace: bool = False,
        collect: Collect = "auto",
        keyColumns: tuple[str, ...] | list[str] = ("key",),  # noqa: N803
        valueColumns: tuple[str, ...] | list[str] = ("value",),  # noqa: N803
    ) -> None:
        """Remembers; the store is asked when the first batch comes."""
        if url is None:
            raise MalformedRequestError(
                "StoreSink needs url=...: the address of any pod of the store, either port"
            )
        _check_choice("onNewCheckpoint", onNewCheckpoint, ("refuse", "takeOver"))
        _check_choice("collect", collect, ("auto", "always", "never"))
        self._store = store
        self._url = url.rstrip("/")
        self._writer = writer or store
        self._take_over = onNewCheckpoint == "takeOver"
        self._replace = replace
        self._collect = collect
        self._columns = Columns(key=tuple(keyColumns), value=tuple(valueColumns))
        self._http = SyncHttp()
        self._query: _OpenQuery | None = None
        self._last_records: int | None = None

    def __call__(self, rows: DataFrame, batch: int) -> None:
        """Writes one micro-batch; Spark calls it."""
        query = self._opened(rows)
        offsets = read_offsets(query.log.raw(batch), self._writer)
        sink_batch = SinkBatch(
            store=self._store,
            writer=self._writer,
            opened=query.run.opened,
            batch=batch,
            position=offsets.position,
            fingerprint=offsets.fingerprint,
            replace=self._replace,
        )
        last = query.run.opened.last_batch
        if last is not None and batch <= last:
            # The batch was decided by an earlier run. Its plan has to run all the same: the state
            # of a stateful query is made by it.
            rows.write.format("noop").mode("overwrite").save()
            commit_batch(self._http, sink_batch, [])
            return
        self._write(rows, sink_batch, query.definition)

    # --- Opening

    def _opened(self, rows: DataFrame) -> "_OpenQuery":
        context = rows.sparkSession.sparkContext
        query_id = context.getLocalProperty("sql.streaming.queryId")
        run_id = context.getLocalProperty("spark.jobGroup.id")
        if query_id is None or run_id is None:
            raise MalformedRequestError("a StoreSink is called by foreachBatch, not by a program")
        if self._query is None or self._query.run_id != run_id:
            if self._query is not None:
                self._query.stop_renewing()
            self._query = self._open(query_id, run_id)
            self._last_records = None
        return self._query

    def _open(self, query_id: str, run_id: str) -> "_OpenQuery":
        query = running_query(query_id)
        if query is None:
            raise StoreError("the streaming query was not found in this program's Spark session")
        self._check_output_mode(query)
        metadata = discover(self._http, self._url, self._store, WRITE_LIMITS)
        run = open_writer(
            self._http,
            metadata,
            self._writer,
            query_id=query_id,
            run_id=run_id,
            take_over=self._take_over,
        )
        return _OpenQuery(query_id, run_id, run, OffsetLog(query))

    def _check_output_mode(self, query: StreamingQuery) -> None:
        mode = str(query._jsq.streamingQuery().outputMode()).lower()  # noqa: SLF001
        if mode == "complete" and not self._replace:
            raise MalformedRequestError(
                "complete mode sends the whole result each time, and rows that left it have to go: "
                "use StoreSink(..., replace=True), or output mode update"
            )

    # --- Writing

    def _write(self, rows: DataFrame, batch: SinkBatch, definition: StoreDefinition) -> None:
        RowEncoder(definition, self._columns).check(rows.columns)
        rows, columns = self._with_json(rows, definition)
        if self._collects(rows):
            table = self._collected(rows)
            if table is not None:
                self._last_records = table.num_rows
                self._stage_here(table, batch, RowEncoder(definition, columns))
                return
        counted = Observation()
        (
            rows.observe(counted, F.count(F.lit(1)).alias("records"))
            .write.format("queryablestate")
            .option("store", self._store)
            .option("url", self._url)
            .option("keyColumns", ",".join(columns.key))
            .option("valueColumns", ",".join(columns.value))
            .option(BATCH_OPTION, batch.encode())
            .mode("append")
            .save()
        )
        self._last_records = counted.get["records"]

    def _with_json(self, rows: DataFrame, definition: StoreDefinition) -> tuple[DataFrame, Columns]:
        """Lets Spark make the JSON of several or nested columns: it is faster at it than Python."""
        names = self._columns.value
        kind = rows.schema[names[0]].dataType.typeName()
        nested = len(names) > 1 or kind in ("struct", "map", "array", "variant")
        if definition.value_serde != "json" or not nested:
            return rows, self._columns
        value = F.struct(*map(F.col, names)) if len(names) > 1 else F.col(names[0])
        beside = [name for name in BESIDE_COLUMNS if name in rows.columns and name not in names]
        kept = dict.fromkeys([*self._columns.key, *beside])
        text = F.to_json(value, {"ignoreNullFields": "false"}).alias(MADE_JSON_COLUMN)
        return rows.select(*kept, text), Columns(key=self._columns.key, value=(MADE_JSON_COLUMN,))

    def _collects(self, rows: DataFrame) -> bool:
        if self._collect != "auto":
            return self._collect == "always"
        if self._last_records is not None:
            return self._last_records < _COLLECT_BELOW_RECORDS
        # The first batch of a run: Spark's own estimate, which is high rather than low.
        plan = rows._jdf.queryExecution().optimizedPlan()  # noqa: SLF001 Python has no other way.
        return int(str(plan.stats().sizeInBytes())) < _COLLECT_BELOW_BYTES

    def _collected(self, rows: DataFrame) -> pa.Table | None:
        """The rows; None where they are too many for the driver."""
        try:
            return rows.toArrow()
        except PySparkException as error:
            if "maxResultSize" not in str(error):
                raise
            _LOG.info("the batch is too large for the driver: the executors stage it")
            self._last_records = None
            return None

    def _stage_here(self, table: pa.Table, batch: SinkBatch, encoder: RowEncoder) -> None:
        staged: list[Staged] = []
        try:
            task = f"driver{batch.batch}"
            staged = stage_rows(self._http, batch, encoder, task, iter(table.to_batches()))
        except BatchClosedError:
            pass  # It was applied: the coordinator tells, by the commit, whether it was this one.
        except BaseException:
            with suppress(StoreError):  # A hint: what does not hear of it is swept later.
                abort(self._http, batch.run, batch.batch, RetryLimits(deadline_s=5.0))
            raise
        commit_batch(self._http, batch, staged)


class _OpenQuery:
    """A run of a query and its opened writer, which a thread keeps open while the run lasts."""

    def __init__(self, query_id: str, run_id: str, run: Run, log: OffsetLog) -> None:
        self.query_id = query_id
        self.run_id = run_id
        self.run = run
        self.log = log
        self._ended = threading.Event()
        threading.Thread(target=self._renew, name="qss-renew", daemon=True).start()

    @property
    def definition(self) -> StoreDefinition:
        return self.run.opened.metadata.definition

    def stop_renewing(self) -> None:
        self._ended.set()

    def _renew(self) -> None:
        http = SyncHttp()
        while not self._ended.wait(_RENEW_INTERVAL_S):
            if running_query(self.query_id) is None:
                return
            try:
                renew(http, self.run)
            except StoreError as error:
                _LOG.warning("the writer is no longer open: %s", error.code)
                return


def _check_choice(name: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise MalformedRequestError(f"{name} is one of {', '.join(allowed)}, not {value!r}")
