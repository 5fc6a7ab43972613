"""Prints answers as a table, as CSV, as JSON, or as one JSON a line."""

import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from itertools import chain, islice
from typing import Any, TypeVar

import msgspec
import typer

from qss_client.cli.columns import Columns, names_with_columns, title_of, with_columns
from qss_client.cli.tables import table_lines, terminal_width
from qss_client.reads.responses import (
    Headers,
    PartitionResult,
    Row,
    SessionRow,
    StateQueryResult,
    VersionRow,
    WindowRow,
)
from qss_core.errors import MalformedRequestError
from qss_core.serdes.json import json_or_text
from qss_core.text import escaped
from qss_core.times import Times, time_text
from qss_core.wire.csv_rows import csv_cell, csv_line

ROWS_SHOWN = 1000  # If no limit is given.
AnyRow = TypeVar("AnyRow")
_VALUE = "value"
_BESIDE = ("indexKey", "sequence", "timestamp", "headers")


class Output(StrEnum):
    TABLE = "table"
    JSON = "json"
    NDJSON = "ndjson"
    CSV = "csv"


def print_rows(
    documents: Iterable[Mapping[str, Any]],
    output: Output,
    names: list[str],
    columns: Columns = (),
) -> None:
    """Prints rows; a table has the columns of `names` that any row has, and - for a missing value.

    Without rows it has the columns that every row would have. CSV has the columns of the first row,
    so that rows are printed as they come. columns: members of the value, in its place. Raises
    MalformedRequestError for columns of JSON.
    """
    if columns:
        if output not in (Output.TABLE, Output.CSV):
            raise MalformedRequestError(f"--columns is for -o table and -o csv, not {output}")
        documents, names = with_columns(documents, columns), names_with_columns(names, columns)
    if output is Output.CSV:
        _print_csv(documents, names)
        return
    if output is Output.NDJSON:
        for document in documents:
            typer.echo(_line(document))
        return
    everything = list(documents)
    if output is Output.JSON:
        typer.echo(_indented(everything))
        return
    found = [
        name
        for name in names
        if title_of(name) is not None or any(name in document for document in everything)
    ]
    shown = found if everything else [name for name in names if name not in _BESIDE]
    rows = [
        [
            _cell(document[name], is_name=_is_name(name)) if name in document else "-"
            for name in shown
        ]
        for document in everything
    ]
    _print_table([heading_of(name) for name in shown], rows)


def _print_table(headings: list[str], rows: list[list[str]]) -> None:
    for line in table_lines(headings, rows, width=terminal_width(), whole=_WHOLE):
        sys.stdout.write(f"{line}\n")


def _print_csv(documents: Iterable[Mapping[str, Any]], names: list[str]) -> None:
    rows = iter(documents)
    first = next(rows, None)
    shown = [name for name in names if name not in _BESIDE or (first and name in first)]
    # A file gets texts as they are; a terminal would obey the escape sequences in them.
    printable = escaped if sys.stdout.isatty() else str
    # Written without typer, which takes escape sequences out of text for a file.
    sys.stdout.write(printable(csv_line([title_of(name) or name for name in shown])) + "\n")
    for document in chain(() if first is None else (first,), rows):
        sys.stdout.write(printable(csv_line([_plain(document.get(name)) for name in shown])) + "\n")


def _plain(value: Any) -> str | None:
    """A value in CSV: a text as it is, null as None, any other value as JSON."""
    if isinstance(value, msgspec.Raw):
        return csv_cell(bytes(value))
    return value if value is None or isinstance(value, str) else _line(value)


def without_csv(output: Output) -> Output:
    """The output of a command that prints no rows. Raises MalformedRequestError for CSV."""
    if output is Output.CSV:
        raise MalformedRequestError(
            "-o csv is for commands that print rows, as get, scan and windows"
        )
    return output


def print_table_row(cells: Iterable[Any]) -> None:
    """Prints one row without headings and without alignment, for rows that come one by one."""
    typer.echo(
        "  ".join(escaped(_cell(cell, is_name=not number)) for number, cell in enumerate(cells))
    )


def print_document(document: Mapping[str, Any], output: Output) -> None:
    """Prints one document; as CSV it is one row."""
    if output is Output.CSV:
        _print_csv([document], list(document))
        return
    typer.echo(_indented(document) if output is Output.JSON else _line(document))


def told_of_more(rows: Iterable[AnyRow], limit: int | None) -> Iterator[AnyRow]:
    """The rows to print; without a limit at most ROWS_SHOWN, and a note if there are more."""
    rows = iter(rows)
    if limit is not None:
        yield from rows
        return
    yield from islice(rows, ROWS_SHOWN)
    if next(rows, None) is not None:
        typer.echo(f"these are the first {ROWS_SHOWN} rows: say --limit N for more", err=True)


def tell_of_more(result: StateQueryResult) -> None:
    """Notes on stderr that a query selects more rows than it was answered with."""
    limit = "say --limit N (an answer has a largest size), or " if result.is_cut else ""
    typer.echo(
        f"these are {result.row_count} rows, and there are more: {limit}go on with --cursor "
        f"{result.cursor}",
        err=True,
    )


def heading_of(name: str) -> str:
    """A column's heading: WINDOW START for windowStart, and the name of a member in capitals."""
    if (title := title_of(name)) is not None:
        return title.upper()
    return "".join(f" {letter}" if letter.isupper() else letter for letter in name).upper()


# These columns are never cut, so that they can be copied.
_WHOLE = frozenset(
    heading_of(name)
    for name in (
        *("name", "windowStart", "windowEnd", "sessionStart", "sessionEnd"),
        *("validFrom", "validTo", "timestamp", "openedAt"),
    )
)


def times_shown(given: Times | None, output: Output) -> Times:
    """The format of printed times; by default RFC 3339 in a table, else milliseconds."""
    if given is not None:
        return given
    return Times.RFC3339 if output is Output.TABLE else Times.MILLIS


def shown_time(time: int, times: Times) -> int | str:
    """A time in milliseconds, converted for printing."""
    text = time_text(time) if times is Times.RFC3339 else None
    return time if text is None else text


def key_document(row: Row, times: Times) -> dict[str, Any]:
    timestamp = None if row.timestamp is None else shown_time(row.timestamp, times)
    found = {} if row.index_key is None else {"indexKey": row.index_key}
    document: dict[str, Any] = {"key": row.key, **found, "value": row.value}
    return {**document, **_beside(timestamp, row.headers)}


def window_document(row: WindowRow, times: Times) -> dict[str, Any]:
    document = {
        "key": row.key,
        "windowStart": shown_time(row.start, times),
        "windowEnd": shown_time(row.end, times),
        **({} if row.sequence is None else {"sequence": row.sequence}),
        "value": row.value,
    }
    timestamp = None if row.timestamp is None else shown_time(row.timestamp, times)
    return {**document, **_beside(timestamp, row.headers)}


def session_document(row: SessionRow, times: Times) -> dict[str, Any]:
    document = {
        "key": row.key,
        "sessionStart": shown_time(row.start, times),
        "sessionEnd": shown_time(row.end, times),
        "value": row.value,
    }
    return {**document, **_beside(None, row.headers)}


def version_document(row: VersionRow, times: Times) -> dict[str, Any]:
    """A version; the end of a valid version is null."""
    return {
        "key": row.key,
        "validFrom": shown_time(row.valid_from, times),
        "validTo": None if row.valid_to is None else shown_time(row.valid_to, times),
        "value": row.value,
    }


def _beside(timestamp: int | str | None, headers: Headers | None) -> dict[str, Any]:
    members: dict[str, Any] = {} if timestamp is None else {"timestamp": timestamp}
    if headers is not None:
        members["headers"] = [{"key": key, "value": value} for key, value in headers]
    return members


def print_results(results: list[PartitionResult], output: Output) -> None:
    """Prints the answer of each partition."""
    without_csv(output)
    documents = [_result_document(result) for result in results]
    if output is Output.NDJSON:
        for document in documents:
            typer.echo(_line(document))
        return
    if output is Output.JSON:
        typer.echo(_indented(documents))
        return
    rows: list[list[str]] = []
    for result, document in zip(results, documents, strict=True):
        answer = document.get("failure", document.get("result"))
        for number, one in enumerate(answer if isinstance(answer, list) else [answer]):
            first = number == 0
            beside = str(result.sequence or ""), result.served_by or ""
            shown = (str(result.partition), *beside) if first else ("", "", "")
            rows.append([shown[0], _cell(one), *shown[1:]])
    _print_table(["PARTITION", "RESULT", "SEQUENCE", "SERVED BY"], rows)
    for result in results:
        for line in result.execution_info:
            typer.echo(f"{result.partition}: {line}")


def _result_document(result: PartitionResult) -> dict[str, Any]:
    failure = result.failure
    position = result.position
    members = {
        "partition": result.partition,
        "failure": None if failure is None else f"{failure.code}: {failure.message}",
        "position": None if position is None else position.to_json(),
        "sequence": result.sequence,
        "servedBy": result.served_by,
        "role": result.role,
        "epoch": result.epoch,
        "end": result.end,
        "executionInfo": list(result.execution_info) or None,
    }
    document = {name: value for name, value in members.items() if value is not None}
    return document if failure is not None else {**document, "result": result.result}


def _line(document: Any) -> str:
    """JSON in one line, with the store's JSON unchanged."""
    return msgspec.json.encode(document).decode()


def _indented(document: Any) -> str:
    """As `_line`, indented; only white space differs."""
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode()


def _is_name(name: str) -> bool:
    """Whether the texts of a column are names, which are never quoted."""
    return name != _VALUE and title_of(name) is None


def _cell(value: Any, *, is_name: bool = False) -> str:
    """A printable text without quotes, unless it would read as a number; other values as JSON.

    Names and keys are written as a person gives them: a key 12 may be a text.
    """
    if isinstance(value, msgspec.Raw) and bytes(value).startswith(b'"'):
        value = json.loads(bytes(value))
    if not isinstance(value, str) or not value.isprintable():
        return _line(value)
    return value if is_name or json_or_text(value) == value else _line(value)
