"""The command `qss load`, which writes a file into a store."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from qss_client.cli.load.input_rows import FileFormat, format_of, rows_text
from qss_client.cli.option_groups import Reaching, reaching
from qss_client.cli.options import connection_of, limits_of
from qss_client.cli.printing import Output, print_document
from qss_client.cli.program import MissingExtraError
from qss_client.cli.shell.names import store_names
from qss_client.clock import SystemClock
from qss_core.errors import MalformedRequestError

if TYPE_CHECKING:
    from qss_client.cli.load.loader import Loaded

_BATCH_ROWS_MAX = 100_000
_WAIT_S = 120.0


def register(app: typer.Typer) -> None:
    app.command()(load)


@reaching
def load(
    file: Annotated[
        Path, typer.Argument(exists=True, dir_okay=False, help="a CSV, NDJSON or Parquet file")
    ],
    store: Annotated[
        str, typer.Option("--store", "-s", help="the store", autocompletion=store_names)
    ],
    key: Annotated[str, typer.Option(help="the column of the key, or several: a,b")] = "key",
    value: Annotated[
        str | None,
        typer.Option(help="the column of the value, or several; default: value, or all others"),
    ] = None,
    timestamp: Annotated[
        str | None, typer.Option(help="the column of the time; default: timestamp, if it is there")
    ] = None,
    text: Annotated[
        str | None, typer.Option(help="columns of CSV whose fields stay texts in objects, as zip")
    ] = None,
    delimiter: Annotated[str, typer.Option(help="between the fields of CSV")] = ",",
    format_: Annotated[
        FileFormat | None, typer.Option("--format", help="default: by the suffix of the file")
    ] = None,
    batch_rows: Annotated[
        int, typer.Option(min=1, max=_BATCH_ROWS_MAX, help="rows that become visible together")
    ] = 10_000,
    again: Annotated[  # noqa: FBT002 an option of a command.
        bool, typer.Option("--again", help="from the first row, also if it was loaded before")
    ] = False,
    check: Annotated[  # noqa: FBT002
        bool, typer.Option("--check", help="read every row, tell what does not fit, write nothing")
    ] = False,
    wait: Annotated[
        float, typer.Option(help="seconds to repeat a batch while pods do not answer")
    ] = _WAIT_S,
    *,
    reached: Reaching,
) -> None:
    """Load a file into a store, exactly once: a command that was cut short is run again."""
    if reached.place.is_on_kubernetes:
        raise MalformedRequestError(
            "qss load sends rows to every pod of the store: run it inside of the cluster, with "
            "--url of the store's Service, instead of --kube"
        )
    if not file.is_file():
        raise MalformedRequestError(
            f"{file} is no regular file: qss load reads it twice; write its rows into a file first"
        )
    try:
        from qss_client.cli.load import loader
        from qss_client.cli.load.progress import Progress
        from qss_client.cli.load.row_encoder import Columns
    except ModuleNotFoundError as error:
        raise MissingExtraError("load", error.name, "store,cli") from error
    options = loader.LoadOptions(
        path=file,
        format=format_of(file, format_),
        columns=Columns(
            key=_names("--key", key),
            value=_names("--value", value) if value else (),
            timestamp=timestamp,
            texts=frozenset(_names("--text", text) if text else ()),
        ),
        delimiter=delimiter,
        batch_rows=batch_rows,
    )
    limits = limits_of(wait)
    with connection_of(store, reached.place) as to, Progress(SystemClock()) as progress:
        http = to.http()
        try:
            if check:
                loaded = loader.check_file(http, to, options, progress.tell)
            else:
                loaded = loader.load(http, to, options, limits, progress.tell, again=again)
        finally:
            http.close()
    document = {"file": file.name, "store": store, **loaded.document}
    if reached.output is not Output.TABLE:
        print_document(document, reached.output)
    elif check:
        fit = "the row of {} fits" if loaded.rows == 1 else f"all {loaded.rows} rows of {{}} fit"
        typer.echo(f"{fit.format(file.name)} store {store}")
    else:
        _tell(file.name, store, loaded)


def _names(option: str, text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(","))
    if "" in names or len({*names}) < len(names):
        raise MalformedRequestError(f"{option} has names of columns, each once, not {text!r}")
    return names


def _tell(name: str, store: str, loaded: "Loaded") -> None:
    were = "was" if loaded.earlier_rows == 1 else "were"
    earlier = f", {loaded.earlier_rows} {were} loaded before" if loaded.earlier_rows else ""
    batches = "1 batch" if loaded.batches == 1 else f"{loaded.batches} batches"
    typer.echo(
        f"loaded {rows_text(loaded.rows)} of {name} into store {store} in {batches}{earlier}"
    )
    if loaded.dropped:
        are, them = ("is", "it") if loaded.dropped == 1 else ("are", "them")
        told = f"{rows_text(loaded.dropped)} {are} older than the store keeps"
        typer.echo(f"{told}: no reader sees {them}")
    if loaded.earlier_rows and not loaded.rows:
        typer.echo("the whole file was loaded before: --again loads it anew", err=True)
