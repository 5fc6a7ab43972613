"""The command `qss watch`, which prints each new row of a key."""

import time
from collections.abc import Callable, Iterator
from typing import Annotated, Any

import typer

from qss_client.cli.advice import advising
from qss_client.cli.asking import Asking, asking
from qss_client.cli.options import Name, ShownTimes, key_of, key_serde
from qss_client.cli.printing import (
    Output,
    key_document,
    print_document,
    print_table_row,
    shown_time,
    times_shown,
    without_csv,
)
from qss_client.clock import Clock, SystemClock
from qss_client.reads.requests import ReadOptions
from qss_client.reads.responses import Row
from qss_client.store import Store
from qss_core.errors import Retry, StoreError
from qss_core.times import Times

_INTERVAL_MIN_S = 0.5
_NEVER = object()  # Not a row, and not an absent row.


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
    times: ShownTimes = None,
    *,
    asked: Asking,
) -> None:
    """Print the row of a key, and each newer row as batches commit, until Ctrl-C."""
    shown = times_shown(times, without_csv(asked.output))
    clock = SystemClock()
    with asked.store(store) as client, advising(client):
        wanted = key_of(key_serde(client), key)
        rows = new_rows(client, wanted, asked.options, lambda: _wait(interval), _tell)
        for number, row in enumerate(rows, start=1):
            _print(_document(key, row, clock, shown), asked.output)
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
    is_told = False
    while True:
        try:
            newer = client.get_newer(key, etag, options)
        except StoreError as error:
            if error.retry is Retry.NEVER:
                raise
            if not is_told:
                tell(f"{error}; asked again until it answers")
            is_told = True
        else:
            is_told = False
            if newer is not None:
                etag = newer.etag
                if newer.row != last:
                    last = newer.row
                    yield newer.row
        wait()


def _wait(interval_s: float) -> None:
    time.sleep(interval_s)  # noqa: TID251 the pause between two questions.


def _tell(text: str) -> None:
    typer.echo(text, err=True)


def _document(key: str, row: Row | None, clock: Clock, times: Times) -> dict[str, Any]:
    seen = {"seenAt": shown_time(clock.wall_ms(), times)}
    if row is None:
        return {**seen, "key": key, "absent": True}
    return {**seen, **key_document(row, times)}


def _print(document: dict[str, Any], output: Output) -> None:
    if output is not Output.TABLE:
        print_document(document, Output.NDJSON)
        return
    absent = "absent" in document
    cells = [document["seenAt"], "(absent)" if absent else document["value"]]
    print_table_row([*cells, *([document["timestamp"]] if "timestamp" in document else [])])
