"""How answers are printed: as a table, as JSON, or as JSON a line."""

import json
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from itertools import islice
from typing import Any, TypeVar

import msgspec
import typer
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from qss_client.answers import Headers, PartitionResult, Row, SessionRow, VersionRow, WindowRow
from qss_core.times import Times, time_text

ROWS_SHOWN = 1000  # Where nobody says how many.
AnyRow = TypeVar("AnyRow")
_BESIDE = ("indexKey", "sequence", "timestamp", "headers")


class Output(StrEnum):
    """How answers are printed."""

    TABLE = "table"
    JSON = "json"
    NDJSON = "ndjson"


def print_rows(documents: Iterable[Mapping[str, Any]], output: Output, names: list[str]) -> None:
    """Prints rows; a table has the columns `names` that any row has.

    Without rows it has those that each row would have.
    """
    if output is Output.NDJSON:
        for document in documents:
            typer.echo(_line(document))
        return
    everything = list(documents)
    if output is Output.JSON:
        typer.echo(_indented(everything))
        return
    found = [name for name in names if any(name in document for document in everything)]
    shown = found or [name for name in names if name not in _BESIDE]
    console = Console()
    rows = [[_cell(document.get(name)) for name in shown] for document in everything]
    whole = _whole_columns(shown, rows, console.width)
    table = _table(*[heading_of(name) for name in shown], whole=whole)
    for row in rows:
        table.add_row(*row)
    console.print(table)


def print_document(document: Mapping[str, Any], output: Output) -> None:
    """Prints one JSON object."""
    typer.echo(_indented(document) if output is Output.JSON else _line(document))


def told_of_more(rows: Iterable[AnyRow], limit: int | None) -> Iterator[AnyRow]:
    """The rows to print: where no limit was said, so many, and a word where there are more."""
    rows = iter(rows)
    if limit is not None:
        yield from rows
        return
    yield from islice(rows, ROWS_SHOWN)
    if next(rows, None) is not None:
        typer.echo(f"these are the first {ROWS_SHOWN} rows: say --limit N for more", err=True)


def tell_of_cut(rows: int, cursor: str | None) -> None:
    """Says, beside the rows of a query, that these are not all that were asked for."""
    typer.echo(
        f"these are {rows} rows, and there are more: say --limit N (an answer has a largest size), "
        f"or go on with --cursor {cursor}",
        err=True,
    )


def heading_of(name: str) -> str:
    """A column's heading: WINDOW START for windowStart."""
    return "".join(f" {letter}" if letter.isupper() else letter for letter in name).upper()


_TIMES = frozenset(
    ("windowStart", "windowEnd", "sessionStart", "sessionEnd", "validFrom", "validTo", "timestamp")
)
_FOLDED_WIDTH_MIN = 12  # Of a column beside times that are not folded.
_BETWEEN_COLUMNS = 2


def _whole_columns(names: list[str], rows: list[list[Text]], width: int) -> frozenset[str]:
    """The headings of times, where they leave room for the others: what is cut cannot be copied."""
    times = [number for number, name in enumerate(names) if name in _TIMES]
    needed = sum(
        max([len(heading_of(names[number])), *(row[number].cell_len for row in rows)])
        for number in times
    )
    needed += _FOLDED_WIDTH_MIN * (len(names) - len(times)) + _BETWEEN_COLUMNS * len(names)
    return frozenset(heading_of(names[number]) for number in times if needed <= width)


def _table(*headers: str, whole: frozenset[str] = frozenset()) -> Table:
    """Long cells are folded, except those of `whole` columns."""
    columns = [Column(header, overflow="fold", no_wrap=header in whole) for header in headers]
    return Table(*columns, box=None)


def key_document(row: Row) -> dict[str, Any]:
    """A key's row."""
    found = {} if row.index_key is None else {"indexKey": row.index_key}
    document: dict[str, Any] = {"key": row.key, **found, "value": row.value}
    return {**document, **_beside(row.timestamp, row.headers)}


def window_document(row: WindowRow, times: Times) -> dict[str, Any]:
    """A window's row."""
    document = {
        "key": row.key,
        "windowStart": _shown(row.start, times),
        "windowEnd": _shown(row.end, times),
        **({} if row.sequence is None else {"sequence": row.sequence}),
        "value": row.value,
    }
    timestamp = None if row.timestamp is None else _shown(row.timestamp, times)
    return {**document, **_beside(timestamp, row.headers)}


def session_document(row: SessionRow, times: Times) -> dict[str, Any]:
    """A session."""
    document = {
        "key": row.key,
        "sessionStart": _shown(row.start, times),
        "sessionEnd": _shown(row.end, times),
        "value": row.value,
    }
    return {**document, **_beside(None, row.headers)}


def version_document(row: VersionRow, times: Times) -> dict[str, Any]:
    """A version; one that is still valid has no end."""
    return {
        "key": row.key,
        "validFrom": _shown(row.valid_from, times),
        "validTo": None if row.valid_to is None else _shown(row.valid_to, times),
        "value": row.value,
    }


def _beside(timestamp: int | str | None, headers: Headers | None) -> dict[str, Any]:
    members: dict[str, Any] = {} if timestamp is None else {"timestamp": timestamp}
    if headers is not None:
        members["headers"] = [{"key": key, "value": value} for key, value in headers]
    return members


def _shown(time: int, times: Times) -> int | str:
    text = time_text(time) if times is Times.RFC3339 else None
    return time if text is None else text


def print_results(results: list[PartitionResult], output: Output) -> None:
    """Prints what each partition answered."""
    documents = [_result_document(result) for result in results]
    if output is Output.NDJSON:
        for document in documents:
            typer.echo(_line(document))
        return
    if output is Output.JSON:
        typer.echo(_indented(documents))
        return
    table = _table("PARTITION", "RESULT", "SEQUENCE", "SERVED BY")
    for result, document in zip(results, documents, strict=True):
        answer = document.get("failure", document.get("result"))
        for number, one in enumerate(answer if isinstance(answer, list) else [answer]):
            first = number == 0
            table.add_row(
                str(result.partition) if first else "",
                _cell(one),
                str(result.sequence or "") if first else "",
                result.served_by or "" if first else "",
            )
    Console().print(table)
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
    """JSON in one line; what the store sent is in it as it came."""
    return msgspec.json.encode(document).decode()


def _indented(document: Any) -> str:
    """The same, indented: only the space between its parts is another one."""
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode()


def _cell(value: Any) -> Text:
    """A text as it is, unless a terminal would take it for something else."""
    if isinstance(value, msgspec.Raw) and bytes(value).startswith(b'"'):
        value = json.loads(bytes(value))
    return Text(value if isinstance(value, str) and value.isprintable() else _line(value))
