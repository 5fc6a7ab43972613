"""Loads the rows of a file into a store, batch by batch, each exactly once."""

import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from pathlib import Path

from qss_client.chunks.carried_batch import CARRIED_ROWS_BYTES_MAX
from qss_client.chunks.chunk import Slice
from qss_client.cli.load.csv_file import CsvFile
from qss_client.cli.load.identity import Identity, Stamp, check_unchanged, identity_of
from qss_client.cli.load.input_rows import FileFormat, InputFile, InputRow, rows_text
from qss_client.cli.load.ndjson_file import NdjsonFile
from qss_client.cli.load.parquet_file import ParquetFile
from qss_client.cli.load.row_encoder import Columns, InputRowEncoder
from qss_client.http.retries import RetryLimits
from qss_client.http.sync_http import SyncHttp
from qss_client.kube.connection import ConnectionOptions
from qss_client.writes.batch import (
    Run,
    Staged,
    abort,
    commit,
    discover,
    open_writer,
    stage,
    write_batch,
)
from qss_client.writes.writers import list_writers
from qss_core.errors import StoreError
from qss_core.wire.chunk_ids import name_attempt, name_group
from qss_core.wire.messages import StoreMetadata

_CLOSE_LIMITS = RetryLimits(deadline_s=1.0)
Tell = Callable[[str, float], None]  # A sentence without its end, and the share of the file.


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadOptions:
    """A file, and how its rows become batches; delimiter: of CSV."""

    path: Path
    format: FileFormat
    columns: Columns
    delimiter: str = ","
    batch_rows: int = 10_000

    def open(self) -> InputFile:
        """The open file. Raises MalformedRequestError for another format."""
        match self.format:
            case FileFormat.CSV:
                return CsvFile(self.path, self.delimiter)
            case FileFormat.NDJSON:
                return NdjsonFile(self.path)
            case FileFormat.PARQUET:
                return ParquetFile(self.path)

    @property
    def chosen(self) -> dict[str, object]:
        """The options that decide which rows a batch has, and their bytes."""
        columns = self.columns
        return {
            "format": self.format,
            "key": columns.key,
            "value": columns.value,
            "timestamp": columns.timestamp,
            "texts": sorted(columns.texts),
            "delimiter": self.delimiter,
            "batchRows": self.batch_rows,
        }


@dataclass(slots=True)
class Loaded:
    """The counts of a load: this run's, and the rows that earlier runs had loaded."""

    rows: int = 0
    batches: int = 0
    earlier_rows: int = 0
    dropped: int = 0  # Rows that are older than the store keeps.
    writer: str | None = None

    def skip(self, rows: "_Counted") -> None:
        """Reads the rows of a batch that the store has."""
        rows.skip()
        self.earlier_rows += rows.count

    def add(self, rows: "_Counted") -> None:
        """Counts the rows of a batch that was written."""
        self.rows += rows.count
        self.batches += 1

    @property
    def document(self) -> dict[str, int | str | None]:
        """The counts as `-o json` prints them."""
        return {
            "rows": self.rows,
            "batches": self.batches,
            "earlierRows": self.earlier_rows,
            "droppedRows": self.dropped,
            "writer": self.writer,
        }


def check_file(http: SyncHttp, to: ConnectionOptions, options: LoadOptions, tell: Tell) -> Loaded:
    """Encodes all rows and writes none. Raises MalformedRequestError for lines that do not fit."""
    checked = Loaded()
    with closing(options.open()) as source:
        metadata = discover(http, to.urls, to.store, RetryLimits())
        encoder = InputRowEncoder(
            metadata.definition, options.columns, source.names, source.line_word
        )
        for rows in _batches(source.rows(), options.batch_rows):
            for group in encoder.groups(rows):
                checked.rows += sum(one.records for one in group)
            tell(f"checked {rows_text(checked.rows)}", source.share_read())
    return checked


def load(
    http: SyncHttp,
    to: ConnectionOptions,
    options: LoadOptions,
    limits: RetryLimits,
    tell: Tell,
    *,
    again: bool = False,
) -> Loaded:
    """Writes the rows that no earlier run of this load has written.

    again: begins with the first row, whatever earlier loads of the file wrote. Raises
    OtherCheckpointError for a file that has changed since, and MalformedRequestError for lines
    that do not fit; the batches before stay written.
    """
    stamp = Stamp.of(options.path)
    with closing(options.open()) as source:
        metadata = discover(http, to.urls, to.store, limits)
        encoder = InputRowEncoder(
            metadata.definition, options.columns, source.names, source.line_word
        )
        name = options.path.name
        identity = identity_of(
            options.path, options.chosen, lambda share: tell(f"reading {name}", share)
        )
        run = _opened(http, to, metadata, identity, name, limits, again=again)
        last = -1 if run.opened.last_batch is None else run.opened.last_batch
        loaded = Loaded(writer=run.writer)
        try:
            for number, rows in enumerate(_batches(source.rows(), options.batch_rows)):
                if number <= last:
                    loaded.skip(rows)
                    tell(f"skipped {rows_text(loaded.earlier_rows)}", source.share_read())
                    continue
                batch = _Batch(http, run, number, identity.fingerprint(number), limits)
                check = partial(check_unchanged, options.path, stamp)
                loaded.dropped += batch.write(
                    encoder.groups(rows), check, lambda what: tell(what, source.share_read())
                )
                last = number
                loaded.add(rows)
                tell(f"loaded {rows_text(loaded.rows)}", source.share_read())
        finally:
            with suppress(StoreError):  # The store closes a silent run by itself.
                abort(http, run, last + 1, _CLOSE_LIMITS)
    return loaded


def _opened(
    http: SyncHttp,
    to: ConnectionOptions,
    metadata: StoreMetadata,
    identity: Identity,
    name: str,
    limits: RetryLimits,
    *,
    again: bool,
) -> Run:
    """Opens the writer; its answer says which batches the store has."""
    writers = list_writers(http, to.urls, to.store, limits, direct=to.direct)
    held = next((one.query_id for one in writers if one.name == identity.writer), None)
    query = identity.fresh(uuid.uuid4().hex[:8])
    if held is not None and not again:
        identity.check_same(held, name)
        query = held
    return open_writer(
        http,
        metadata,
        identity.writer,
        query_id=query,
        run_id=uuid.uuid4().hex,
        take_over=again,
        limits=limits,
    )


@dataclass(frozen=True, slots=True)
class _Batch:
    """One batch on its way into the store."""

    http: SyncHttp
    run: Run
    number: int
    fingerprint: str
    limits: RetryLimits

    def write(
        self, groups: Iterator[list[Slice]], check: Callable[[], None], tell: Callable[[str], None]
    ) -> int:
        """Commits the rows; a small batch carries them. Returns the number of dropped rows.

        `check` is called once all rows were read: an error of it keeps them out of the store.
        `tell` gets a sentence behind each group of a large batch.
        """
        first = list(islice(groups, 2))
        if len(first) == 1 and sum(len(one.data) for one in first[0]) <= CARRIED_ROWS_BYTES_MAX:
            check()
            answer = write_batch(
                self.http,
                self.run,
                self.number,
                first[0],
                position={},
                fingerprint=self.fingerprint,
                limits=self.limits,
            )
        else:
            staged = self._staged(chain(first, groups), tell)
            check()
            answer = commit(
                self.http,
                self.run,
                self.number,
                staged,
                position={},
                fingerprint=self.fingerprint,
                limits=self.limits,
            )
        return sum(answer.dropped.values())

    def _staged(self, groups: Iterable[list[Slice]], tell: Callable[[str], None]) -> list[Staged]:
        staged: list[Staged] = []
        for number, slices in enumerate(groups):
            task = name_group(name_attempt(0, 0), number)
            staged += stage(self.http, self.run, self.number, task, slices, self.limits)
            sent = sum(one.chunk.records for one in staged)
            tell(f"sent {rows_text(sent)} of batch {self.number}")
        return staged


class _Counted:
    """The rows of a batch, read one by one: large values need not be in memory together."""

    def __init__(self, rows: Iterator[InputRow]) -> None:
        self._rows = rows
        self.count = 0

    def __iter__(self) -> Iterator[InputRow]:
        for row in self._rows:
            self.count += 1
            yield row

    def skip(self) -> None:
        for _ in self:
            pass


def _batches(rows: Iterator[InputRow], batch_rows: int) -> Iterator[_Counted]:
    """The n-th has the n-th `batch_rows` rows of the file, also lines that do not fit."""
    for first in rows:
        batch = _Counted(chain((first,), islice(rows, batch_rows - 1)))
        yield batch
        batch.skip()
