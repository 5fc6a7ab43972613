"""`StoreSink`: a streaming query writes a store, exactly once, through `foreachBatch`.

The driver collects small batches and stages them; it sends very small ones with their commit. The
executors stage other batches through the data source. In all cases the driver commits, with the
position that Spark wrote to its offset log before the batch began.
"""

import atexit
import logging
import threading
import time
from contextlib import closing
from dataclasses import replace
from importlib.util import find_spec
from inspect import signature
from itertools import chain, islice
from typing import Any, Literal

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F  # noqa: N812 the field's own habit.

from qss_client.addresses import Urls, checked_name, find_urls
from qss_client.writes.batch import WRITE_LIMITS, Run, Staged, discover, open_writer
from qss_core.errors import BatchClosedError, BatchGapError, MalformedRequestError, StoreError
from qss_core.model import StoreDefinition
from qss_core.wire.writer_reports import check_writer_name
from qss_spark.column_types import arrow_schema
from qss_spark.options import BATCH_OPTION, Access, SinkBatch
from qss_spark.rows import (
    BESIDE_COLUMNS,
    MADE_JSON_COLUMN,
    Columns,
    RecordBatchEncoder,
    TimestampOf,
)
from qss_spark.sink.batch_steps import (
    close,
    commit_batch,
    give_up,
    is_small,
    stage_groups,
    write_rows,
)
from qss_spark.sink.batch_warnings import warn_of_unaligned
from qss_spark.sink.checkpoints import check_is_shared
from qss_spark.sink.failure_lines import telling_first
from qss_spark.sink.kept_open import may_go_on
from qss_spark.sink.map_stage import stage_by_map
from qss_spark.sink.positions import read_offsets
from qss_spark.sink.streaming_query import RunningQuery

_LOG = logging.getLogger(__name__)
_COLLECT_BELOW_RECORDS = 10_000
_COLLECT_BELOW_BYTES = 8 * 1024 * 1024
_RENEW_INTERVAL_S = 60.0
_HAS_DATA_SOURCES = find_spec("pyspark.sql.datasource") is not None  # Since PySpark 4.0.
_LOOK_INTERVAL_S = 2.0  # Between looks whether the query has ended.

OnNewCheckpoint = Literal["refuse", "takeOver"]
Collect = Literal["auto", "always", "never"]


class StoreSink:
    """Give it to `foreachBatch`: `writeStream.foreachBatch(StoreSink("word-counts", url=...))`.

    url: the query or internal port of one or more pods of the store: a list, or a text with commas.
        By default QSS_URL, or the local cluster in QSS_STATE_DIR, `.qss`.
    writer: each query that writes the store needs its own name; by default the store's name.
    onNewCheckpoint: the action if the writer belongs to another checkpoint: "refuse", or
        "takeOver", which starts a new generation and fences the older query for good.
    replace: each batch replaces all rows of the store (complete mode needs it).
    collect: stage through the driver "always", "never", or "auto": if the batches are small.
    keyColumns, valueColumns: the columns of key and value; several value columns become JSON.
    timestamp: "column": rows have the times in their column timestamp, if it exists; "batch": the
        time of the batch. A Versioned store needs the column, or "batch" explicitly.
    tokenFile, caFile: the paths of a bearer token, read again when it changes, and of the
        authorities for https, on the machines of the driver and of the executors.

    The constructor raises UnreachableError within 5 s if no pod answers. A call raises the store's
    errors (qss_core.errors), which end the query; a restarted query continues with the same batch.
    """

    def __init__(
        self,
        store: str,
        url: Urls | None = None,
        writer: str | None = None,
        onNewCheckpoint: OnNewCheckpoint = "refuse",  # noqa: N803 Spark's options look like this.
        *,
        replace: bool = False,
        collect: Collect = "auto",
        keyColumns: tuple[str, ...] | list[str] = ("key",),  # noqa: N803
        valueColumns: tuple[str, ...] | list[str] = ("value",),  # noqa: N803
        timestamp: TimestampOf = "column",
        tokenFile: str | None = None,  # noqa: N803
        caFile: str | None = None,  # noqa: N803
    ) -> None:
        """Contacts the store: an error in a starting query is buried in Java traces."""
        _check_choice("onNewCheckpoint", onNewCheckpoint, ("refuse", "takeOver"))
        _check_choice("collect", collect, ("auto", "always", "never"))
        _check_names("keyColumns", keyColumns)
        _check_names("valueColumns", valueColumns)
        self._store = checked_name(store)
        self._urls = find_urls(store, url)
        self._writer = store if writer is None else check_writer_name(writer)
        self._take_over = onNewCheckpoint == "takeOver"
        self._replace = replace
        self._collect = collect
        self._columns = Columns(
            key=tuple(keyColumns), value=tuple(valueColumns), timestamp=timestamp
        )
        self._access = Access(tokenFile, caFile)
        self._http = self._access.http()
        self._query: _OpenQuery | None = None
        self._last_records: int | None = None
        discover(self._http, self._urls, store, WRITE_LIMITS)

    def __call__(self, rows: DataFrame, batch: int) -> None:
        """Writes one micro-batch; Spark calls it."""
        try:
            with telling_first(f"batch {batch} of store {self._store}"):
                self._write_batch(rows, batch)
        except StoreError as error:
            # Spark prints the trace three times: without the frames of the sink.
            raise error.with_traceback(None) from None

    def _write_batch(self, rows: DataFrame, batch: int) -> None:
        query = self._opened(rows)
        query.newest_batch = batch
        offsets = read_offsets(query.log.raw(batch), self._writer)
        sink_batch = SinkBatch(
            store=self._store,
            writer=self._writer,
            opened=query.run.opened,
            batch=batch,
            position=offsets.position,
            fingerprint=offsets.fingerprint,
            replace=self._replace,
            warns=not query.has_written,
        )
        last = query.run.opened.last_batch
        if not query.has_begun:
            self._check_first(batch, last)
            query.has_begun = True
        if last is not None and batch <= last:
            # The batch was decided by an earlier run. Its plan still has to run: it makes the state
            # of a stateful query.
            rows.write.format("noop").mode("overwrite").save()
            commit_batch(self._http, query.run, sink_batch, [])
            return
        self._write(rows, sink_batch, query.run)
        query.has_written = query.has_written or bool(self._last_records)

    # --- Opening

    def _opened(self, rows: DataFrame) -> "_OpenQuery":
        session = rows.sparkSession
        query_id = session.sparkContext.getLocalProperty("sql.streaming.queryId")
        run_id = session.sparkContext.getLocalProperty("spark.jobGroup.id")
        if query_id is None or run_id is None:
            raise MalformedRequestError("a StoreSink is called by foreachBatch, not by a program")
        if self._query is None or self._query.run_id != run_id:
            if self._query is not None:
                self._query.let_go()
            self._query = self._open(session, query_id, run_id)
            self._last_records = None
        return self._query

    def _open(self, session: SparkSession, query_id: str, run_id: str) -> "_OpenQuery":
        query = RunningQuery(session, query_id)
        if query.output_mode == "complete" and not self._replace:
            raise MalformedRequestError(
                "complete mode sends the whole result each time, and rows that left it have to go: "
                "use StoreSink(..., replace=True), or output mode update"
            )
        checkpoint = query.offset_log().directory
        if checkpoint is not None:
            check_is_shared(session, checkpoint)
        metadata = discover(self._http, self._urls, self._store, WRITE_LIMITS)
        run = open_writer(
            self._http,
            metadata,
            self._writer,
            query_id=query_id,
            run_id=run_id,
            take_over=self._take_over,
        )
        return _OpenQuery(query, run_id, run, self._access)

    def _check_first(self, batch: int, last: int | None) -> None:
        """Raises for a checkpoint that continues while the store lacks its earlier batches."""
        if last is None and batch > 0 and not self._take_over:
            raise BatchGapError(
                f"store {self._store} has no batch of writer {self._writer}, and the checkpoint "
                f"continues at batch {batch}: the store was made again, or the sink is new. Start "
                "with a new checkpoint; or continue without the earlier rows, with "
                'onNewCheckpoint="takeOver"'
            )

    # --- Writing

    def _write(self, rows: DataFrame, batch: SinkBatch, run: Run) -> None:
        definition = batch.definition
        RecordBatchEncoder(definition, self._columns).check_schema(rows.schema)
        rows, columns = self._with_json(rows, definition)
        if self._collects(rows):
            table = self._collected(rows)
            if table is not None:
                self._last_records = table.num_rows
                self._stage_here(table, batch, run, RecordBatchEncoder(definition, columns))
                return
        if _HAS_DATA_SOURCES:
            self._stage_by_writer(rows, batch, columns)
        else:
            self._stage_by_map(rows, batch, run, columns)

    def _stage_by_writer(self, rows: DataFrame, batch: SinkBatch, columns: Columns) -> None:
        counted = Observation()
        (
            rows.observe(counted, F.count(F.lit(1)).alias("records"))
            .write.format("queryablestate")
            .option("store", self._store)
            .option("url", ",".join(self._urls))
            .option("keyColumns", ",".join(columns.key))
            .option("valueColumns", ",".join(columns.value))
            .option("timestamp", columns.timestamp)
            .option(BATCH_OPTION, batch.encode())
            .options(**self._access.options)
            .mode("append")
            .save()
        )
        self._last_records = counted.get["records"]

    def _stage_by_map(self, rows: DataFrame, batch: SinkBatch, run: Run, columns: Columns) -> None:
        try:
            made = stage_by_map(rows, batch, columns, self._access)
        except BaseException:
            give_up(self._http, run, batch.batch)
            raise
        commit_batch(self._http, run, batch, made.staged)
        self._last_records = sum(one.chunk.records for one in made.staged)
        if batch.warns:
            warn_of_unaligned(batch.definition, batch.batch, made.unaligned)

    def _with_json(self, rows: DataFrame, definition: StoreDefinition) -> tuple[DataFrame, Columns]:
        """Lets Spark make the JSON of several or nested columns, which is faster than in Python."""
        names = self._columns.value
        kind = rows.schema[names[0]].dataType.typeName()
        nested = len(names) > 1 or kind in ("struct", "map", "array", "variant")
        if definition.value_serde != "json" or not nested:
            return rows, self._columns
        value = F.struct(*map(_column, names)) if len(names) > 1 else _column(names[0])
        beside = [name for name in BESIDE_COLUMNS if name in rows.columns and name not in names]
        kept = dict.fromkeys([*self._columns.key, *beside])
        text = F.to_json(value, {"ignoreNullFields": "false"}).alias(MADE_JSON_COLUMN)
        made = replace(self._columns, value=(MADE_JSON_COLUMN,))
        return rows.select(*map(_column, kept), text), made

    def _collects(self, rows: DataFrame) -> bool:
        if self._collect != "auto":
            return self._collect == "always"
        if self._last_records is not None:
            return self._last_records < _COLLECT_BELOW_RECORDS
        # In the first batch of a run use Spark's estimate, which is rather too high.
        plan = rows._jdf.queryExecution().optimizedPlan()  # noqa: SLF001 Python has no other way.
        return int(str(plan.stats().sizeInBytes())) < _COLLECT_BELOW_BYTES

    def _collected(self, rows: DataFrame) -> pa.Table | None:
        """The rows; None if they are too many for the driver."""
        try:
            # Like toArrow, without its round trips for a schema that the batches have.
            collect: Any = rows._collect_as_arrow  # noqa: SLF001
            if "empty_list_if_zero_records" in signature(collect).parameters:
                return pa.Table.from_batches(collect(empty_list_if_zero_records=False))
            # PySpark 3.5 gives no batch where there are no rows.
            batches = collect()
            return pa.Table.from_batches(batches, None if batches else arrow_schema(rows.schema))
        except (PySparkException, Py4JError) as error:  # Either type is raised.
            if "maxResultSize" not in str(error):
                raise
            _LOG.info("the batch is too large for the driver: the executors stage it")
            self._last_records = None
            return None

    def _stage_here(
        self, table: pa.Table, batch: SinkBatch, run: Run, encoder: RecordBatchEncoder
    ) -> None:
        groups = encoder.slices(table.to_batches())
        first = list(islice(groups, 2))
        if is_small(first):
            write_rows(self._http, run, batch, first)
            self._warn(batch, encoder)
            return
        staged: list[Staged] = []
        try:
            task = f"driver{batch.batch}"
            staged = stage_groups(self._http, run, batch.batch, chain(first, groups), task)
        except BatchClosedError:
            pass  # The batch was applied; the commit finds out whether it is a replay.
        except BaseException:
            give_up(self._http, run, batch.batch)
            raise
        commit_batch(self._http, run, batch, staged)
        self._warn(batch, encoder)

    def _warn(self, batch: SinkBatch, encoder: RecordBatchEncoder) -> None:
        if batch.warns:
            warn_of_unaligned(batch.definition, batch.batch, encoder.unaligned)


class _OpenQuery:
    """A run of a query and its opened writer, which a thread keeps open during the run.

    It closes the writer when the query or the program has ended.
    """

    def __init__(self, query: RunningQuery, run_id: str, run: Run, access: Access) -> None:
        self.run_id = run_id
        self.run = run
        self.log = query.offset_log()
        self.has_begun = False
        self.has_written = False  # Whether a batch with rows was written.
        self.newest_batch = -1
        self._query = query
        self._access = access
        self._ended = threading.Event()
        atexit.register(self._close)
        threading.Thread(target=self._renew, name="qss-renew", daemon=True).start()

    def let_go(self) -> None:
        """Stops without closing: a younger run has opened the writer."""
        self._ended.set()
        atexit.unregister(self._close)

    def _close(self) -> None:
        """Closes the writer, so that it can be deleted at once."""
        self.let_go()
        http = self._access.http()
        with closing(http):
            close(http, self.run, self.newest_batch)

    def _renew(self) -> None:
        http = self._access.http()
        renewed_at = time.monotonic()
        while not self._ended.wait(_LOOK_INTERVAL_S):
            if self._query.has_ended:
                self._close()
                return
            if time.monotonic() - renewed_at < _RENEW_INTERVAL_S:
                continue
            renewed_at = time.monotonic()
            if not may_go_on(http, self.run):
                return


def _column(name: str) -> Column:
    """The column of that name, which may have dots."""
    return F.col("`" + name.replace("`", "``") + "`")


def _check_names(name: str, columns: object) -> None:
    if not columns or not isinstance(columns, list | tuple):
        raise MalformedRequestError(f'{name} is a list of names like ["key"], not {columns!r}')


def _check_choice(name: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise MalformedRequestError(f"{name} is one of {', '.join(allowed)}, not {value!r}")
