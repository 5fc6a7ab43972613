"""The command `qss writers`, which lists a store's writers and deletes one."""

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from qss_client.cli.option_groups import Reaching, reaching
from qss_client.cli.options import Name, ShownTimes, connection_of, limits_of
from qss_client.cli.printing import Output, print_rows, shown_time, times_shown
from qss_client.writes.writers import delete_writer, list_writers
from qss_core.errors import MalformedRequestError, UnknownWriterError
from qss_core.times import Times
from qss_core.wire.writer_reports import WriterReport

_COLUMNS = ["name", "state", "lastBatch", "generation", "openedAt"]


def register(app: typer.Typer) -> None:
    app.command()(writers)


@reaching
def writers(
    store: Name,
    delete: Annotated[
        str | None, typer.Option(help="delete this writer and its batches; its rows stay")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="even if its run may be alive")] = False,  # noqa: FBT002
    everyone: Annotated[bool, typer.Option("--all", help="also batch jobs that are done")] = False,  # noqa: FBT002
    times: ShownTimes = None,
    *,
    reached: Reaching,
) -> None:
    """List a store's writers; delete a writer whose query will not come back."""
    if force and delete is None:
        raise MalformedRequestError("--force goes with --delete WRITER")
    output, limits = reached.output, limits_of(reached.timeout_s)
    shown = times_shown(times, output)
    with connection_of(store, reached.place, writes=True) as to:
        http = to.http()
        try:
            if delete is None:
                found = list_writers(http, to.urls, to.store, limits, direct=to.direct)
                _print(found, output, shown, everyone=everyone)
                return
            gone = delete_writer(
                http,
                to.urls,
                to.store,
                delete,
                force=force,
                limits=limits,
                direct=to.direct,
            )
        except UnknownWriterError as error:
            raise UnknownWriterError(
                f"store {to.store} has no writer {delete}: `qss writers {to.store} --all` lists "
                "its writers"
            ) from error
        finally:
            http.close()
    if output is not Output.TABLE:
        print_rows([] if gone is None else [document_of(gone, shown)], output, _COLUMNS)
        return
    last = None if gone is None else gone.last_batch
    typer.echo(f"writer {delete} is forgotten" + ("" if last is None else f", after batch {last}"))


def _print(found: Sequence[WriterReport], output: Output, times: Times, *, everyone: bool) -> None:
    shown = [one for one in found if everyone or not _is_done(one)]
    print_rows([document_of(one, times) for one in shown], output, _COLUMNS)
    if hidden := len(found) - len(shown):
        typer.echo(f"batch jobs that are done: {hidden}; --all shows them", err=True)


def _is_done(one: WriterReport) -> bool:
    """Whether it is a batch job that has written its only batch, or ended without it."""
    return one.one_off and (one.last_batch is not None or one.silent_s is None)


def document_of(one: WriterReport, times: Times) -> dict[str, Any]:
    """A writer as `qss writers` shows it."""
    return {
        "name": one.name,
        "state": _state(one),
        "lastBatch": one.last_batch,
        "generation": one.generation,
        # After an accepted loss the time is unknown, and 0.
        "openedAt": shown_time(one.opened_at_ms // 1000 * 1000, times)
        if one.opened_at_ms
        else None,
        "queryId": one.query_id,
    }


def _state(one: WriterReport) -> str:
    if one.one_off and one.last_batch is not None:
        return "batch job, done"
    least = "" if one.is_heard_of else "at least "
    state = "closed" if one.silent_s is None else f"open, {least}{one.silent_s:.0f} s silent"
    return f"batch job, {state}" if one.one_off else state
