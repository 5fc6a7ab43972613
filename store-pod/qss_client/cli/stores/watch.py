"""The command `qss watch`, which prints each new row of a key."""

import time
from collections.abc import Callable, Iterator
from typing import Annotated, Any, TypeVar

import typer

from qss_client.cli.advice import advising
from qss_client.cli.option_groups import Asking, asking
from qss_client.cli.options import Name, Partition, ShownTimes, key_of, key_serde
from qss_client.cli.printing import (
    Output,
    key_document,
    print_document,
    print_table_row,
    session_document,
    shown_time,
    times_shown,
    version_document,
    window_document,
    without_csv,
)
from qss_client.cli.stores.row_changes import (
    ROWS_MAX,
    Change,
    Look,
    TimedRow,
    changes_between,
    looks_at,
)
from qss_client.clock import Clock, SystemClock
from qss_client.reads.requests import ReadOptions
from qss_client.reads.responses import NewerRow, Row, SessionRow, VersionRow, WindowRow
from qss_client.store import Store
from qss_core.errors import Retry, StoreError
from qss_core.model import StoreType
from qss_core.times import Times

_INTERVAL_MIN_S = 0.5
_NEVER = object()  # Not a row, and not an absent row.
_OF_KEYS = (StoreType.KEY_VALUE, StoreType.CUSTOM)
_OF_VALUE = ("value", "timestamp", "headers")  # A row that is gone has none of them.
_BESIDE = ("key", "headers", "indexKey")  # A table leaves them out.
Answer = TypeVar("Answer")


def register(app: typer.Typer) -> None:
    app.command()(watch)


@asking
def watch(
    store: Name,
    key: Annotated[str, typer.Argument(help="the key to follow")],
    interval: Annotated[
        float, typer.Option(min=_INTERVAL_MIN_S, help="seconds between two questions")
    ] = _INTERVAL_MIN_S,
    limit: Annotated[int | None, typer.Option(min=1, help="end after so many rows")] = None,
    partition: Partition = None,
    times: ShownTimes = None,
    *,
    asked: Asking,
) -> None:
    """Print the rows of a key, and each newer row as batches commit, until Ctrl-C.

    A Window, Session or Versioned store has several rows of a key: those that are new, changed or
    gone are printed.
    """
    shown = times_shown(times, without_csv(asked.output))
    clock = SystemClock()
    with asked.store(store) as client, advising(client):
        wanted = key_of(key_serde(client), key)
        given = client, wanted, asked.of_key_in(partition), lambda: _wait(interval), _tell
        changes: Iterator[Change]
        if client.metadata().definition.type in _OF_KEYS:
            changes = (Change(row, is_gone=row is None) for row in new_rows(*given))
        else:
            changes = new_timed_rows(*given)
        for number, change in enumerate(changes, start=1):
            _print(_document(key, change, clock, shown), asked.output)
            if number == limit:
                return


def new_rows(
    client: Store,
    key: Any,
    options: ReadOptions,
    wait: Callable[[], None],
    tell: Callable[[str], None],
) -> Iterator[Row | None]:
    """The rows of a key, each once, as they become visible; None where the key is absent.

    wait: is called between two questions. tell: gets a sentence when the store does not answer; it
    is asked again if the failure may pass.
    """
    etag: str | None = None
    last: Any = _NEVER

    def ask() -> NewerRow | None:
        nonlocal etag
        newer = client.get_newer(key, etag, options)
        etag = etag if newer is None else newer.etag
        return newer

    for newer in _answers(ask, wait, tell):
        if newer is not None and newer.row != last:
            last = newer.row
            yield newer.row


def new_timed_rows(
    client: Store,
    key: Any,
    options: ReadOptions,
    wait: Callable[[], None],
    tell: Callable[[str], None],
) -> Iterator[Change]:
    """The windows, sessions or versions of a key, and then their changes; as `new_rows`.

    The newest ROWS_MAX are followed; `tell` gets a sentence where the key has more.
    """
    last: Look | None = None
    is_told = False
    for look in _answers(looks_at(client, key, options), wait, tell):
        if not (look.is_whole or is_told):
            tell(f"the key has more rows: its newest {ROWS_MAX} are followed")
            is_told = True
        if last is None and not look.rows:
            yield Change(None, is_gone=True)
        yield from changes_between(last or Look(), look)
        last = look


def _answers(
    ask: Callable[[], Answer], wait: Callable[[], None], tell: Callable[[str], None]
) -> Iterator[Answer]:
    """The answers to a question that is asked again and again; a failure is told once."""
    is_told = False
    while True:
        try:
            answer = ask()
        except StoreError as error:
            if error.retry is Retry.NEVER:
                raise
            if not is_told:
                tell(f"{error}; asked again until it answers")
            is_told = True
        else:
            is_told = False
            yield answer
        wait()


def _wait(interval_s: float) -> None:
    time.sleep(interval_s)  # noqa: TID251 the pause between two questions.


def _tell(text: str) -> None:
    typer.echo(text, err=True)


def _document(key: str, change: Change, clock: Clock, times: Times) -> dict[str, Any]:
    seen = {"seenAt": shown_time(clock.wall_ms(), times)}
    if change.row is None:
        return {**seen, "key": key, "absent": True}
    document = _row_document(change.row, times)
    if not change.is_gone:
        return {**seen, **document}
    named = {name: value for name, value in document.items() if name not in _OF_VALUE}
    return {**seen, **named, "absent": True}


def _row_document(row: Row | TimedRow, times: Times) -> dict[str, Any]:
    match row:
        case Row():
            return key_document(row, times)
        case WindowRow():
            return window_document(row, times)
        case SessionRow():
            return session_document(row, times)
        case VersionRow():
            return version_document(row, times)


def _print(document: dict[str, Any], output: Output) -> None:
    if output is not Output.TABLE:
        print_document(document, Output.NDJSON)
        return
    cells = {name: value for name, value in document.items() if name not in _BESIDE}
    if "absent" in cells:
        cells["absent"] = "(absent)"
    print_table_row(cells.values())
