"""The commands `qss get`, `qss scan`, `qss count` and `qss query`."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Annotated, Any

import typer

from qss_client.cli.advice import advising
from qss_client.cli.columns import Columns, columns_of
from qss_client.cli.option_groups import Asking, asking
from qss_client.cli.options import (
    ExecutionInfo,
    Limit,
    Name,
    Partition,
    Partitions,
    ShownColumns,
    ShownTimes,
    key_of,
    key_serde,
    numbers,
    rows_to_ask,
)
from qss_client.cli.printing import (
    Output,
    key_document,
    print_document,
    print_results,
    print_rows,
    tell_of_more,
    times_shown,
    told_of_more,
    without_csv,
)
from qss_client.cli.shell.names import query_types
from qss_client.reads.key_order import merge_by_key
from qss_client.reads.responses import Row
from qss_core.errors import KeyNotFoundError, MalformedRequestError, RangeReversedError
from qss_core.serdes.json import json_or_text
from qss_core.serdes.registry import Serde
from qss_core.times import Times

_BY_INDEX = "IndexQuery"
_COLUMNS = ["key", "value", "indexKey", "timestamp", "headers"]
_KEY_FIELDS = ("key", "lower", "upper", "prefix", "keyFrom", "keyTo")


def register(app: typer.Typer) -> None:
    app.command()(get)
    app.command()(scan)
    app.command()(count)
    app.command()(query)


@asking
def get(
    store: Name,
    keys: Annotated[list[str], typer.Argument(help="one key or more")],
    partition: Partition = None,
    times: ShownTimes = None,
    columns: ShownColumns = None,
    *,
    asked: Asking,
) -> None:
    """Look keys up; exit code 3 when one of them is not there."""
    shown = columns_of(columns)
    with asked.store(store) as client, advising(client):
        serde = key_serde(client)
        wanted = [key_of(serde, text) for text in keys]
        if len(wanted) == 1:
            rows = [client.get(wanted[0], asked.of_key_in(partition))]
        else:
            rows = client.get_many(wanted, asked.of_key_in(partition))
    found = [row for row in rows if row is not None]
    if found or len(keys) > 1:
        _print_rows(found, times, asked.output, shown)
    if missing := [key for key, row in zip(keys, rows, strict=True) if row is None]:
        raise KeyNotFoundError(f"store {store} has no {', '.join(map(repr, missing))}")


@asking
def scan(
    store: Name,
    lower: Annotated[str | None, typer.Option("--from", help="the first key")] = None,
    upper: Annotated[str | None, typer.Option("--to", help="the last key")] = None,
    index: Annotated[
        str | None, typer.Option(help="scan this index; --from and --to are then keys of the index")
    ] = None,
    prefix: Annotated[str | None, typer.Option(help="only keys that begin with this text")] = None,
    descending: Annotated[bool, typer.Option("--descending", help="from the last key on")] = False,  # noqa: FBT002
    is_sorted: Annotated[  # noqa: FBT002
        bool,
        typer.Option(
            "--sorted",
            help="by the bytes of the keys over all partitions, not one after the other; negative "
            "numbers come after the others, as in Kafka",
        ),
    ] = False,
    limit: Limit = None,
    partitions: Partitions = None,
    times: ShownTimes = None,
    columns: ShownColumns = None,
    *,
    asked: Asking,
) -> None:
    """Print a range, a prefix, or everything: partition by partition, each in key order."""
    if prefix is not None and (lower, upper, index) != (None, None, None):
        raise MalformedRequestError("give either --prefix, or --from, --to and --index")
    if is_sorted and index is not None:
        raise MalformedRequestError("--sorted is by key: it goes without --index")
    order = "DESCENDING" if descending else "ASCENDING"
    most, shown = rows_to_ask(limit), columns_of(columns)
    with asked.store(store) as client, advising(client):
        serde = key_serde(client)
        own = None if index else serde  # The serde of the bounds; None for an index.

        def scanned(chosen: Sequence[int] | None) -> Iterator[Row]:
            if prefix is not None:
                return client.prefix(
                    _key(serde, prefix),
                    order=order,
                    limit=most,
                    partitions=chosen,
                    options=asked.options,
                )
            return client.range(
                None if lower is None else _key(own, lower),
                None if upper is None else _key(own, upper),
                index=index,
                order=order,
                limit=most,
                partitions=chosen,
                options=asked.options,
            )

        chosen = numbers(partitions)
        if is_sorted:
            everything = range(client.metadata().definition.partitions)
            parts = [scanned([number]) for number in chosen or everything]
            rows: Iterator[Row] = islice(merge_by_key(parts, serde, reverse=descending), most)
        else:
            rows = scanned(chosen)
        try:
            _print_rows(told_of_more(rows, limit), times, asked.output, shown)
        except RangeReversedError as error:
            raise _reversed(descending=descending) from error


def _reversed(*, descending: bool) -> RangeReversedError:
    backward = "with --descending too" if descending else "for the reverse order add --descending"
    return RangeReversedError(
        f"--from lies above --to, in the order of the keys' bytes (negative numbers come after "
        f"positive ones): --from is the smaller one, {backward}"
    )


@asking
def count(
    store: Name,
    exact: Annotated[  # noqa: FBT002 an option of a command.
        bool, typer.Option("--exact", help="count every row; default: RocksDB's estimate")
    ] = False,
    by_partition: Annotated[  # noqa: FBT002
        bool, typer.Option("--by-partition", help="the rows of each partition, and of all")
    ] = False,
    partitions: Partitions = None,
    *,
    asked: Asking,
) -> None:
    """Count the rows: by RocksDB's estimate, or exactly."""
    if by_partition:
        _print_each_count(store, asked, numbers(partitions), exact=exact)
        return
    with asked.store(store) as client:
        counted = client.count(asked.options, exact=exact, partitions=numbers(partitions))
    if asked.output is not Output.TABLE:
        print_document({"count": counted, "exact": exact}, asked.output)
    elif exact:
        typer.echo(str(counted))
    else:
        typer.echo(f"about {counted} (an estimate; --exact counts every row)")


def _print_each_count(store: str, asked: Asking, chosen: list[int] | None, *, exact: bool) -> None:
    with asked.store(store) as client:
        wanted = range(client.metadata().definition.partitions) if chosen is None else chosen
        documents: list[dict[str, int | str]] = [
            {
                "partition": number,
                "count": client.count(asked.options, exact=exact, partitions=[number]),
            }
            for number in wanted
        ]
    total = sum(int(one["count"]) for one in documents)
    if asked.output is Output.JSON:
        print_document({"count": total, "exact": exact, "partitions": documents}, asked.output)
        return
    if asked.output is Output.TABLE:
        documents.append({"partition": "all", "count": total})
    print_rows(documents, asked.output, ["partition", "count"])
    if not exact and asked.output is Output.TABLE:
        typer.echo("these are estimates: --exact counts every row", err=True)


@asking
def query(
    store: Name,
    type_: Annotated[
        str,
        typer.Argument(
            metavar="TYPE", help="KeyQuery, RangeQuery, ...", autocompletion=query_types
        ),
    ],
    fields: Annotated[list[str] | None, typer.Argument(help="its fields, as lower=a")] = None,
    partitions: Partitions = None,
    limit: Annotated[int | None, typer.Option(min=1, help="the most rows of a range")] = None,
    times: Annotated[Times | None, typer.Option(help="how the rows' times are printed")] = None,
    cursor: Annotated[str | None, typer.Option(help="continue after an answer's rows")] = None,
    execution_info: ExecutionInfo = False,  # noqa: FBT002
    *,
    asked: Asking,
) -> None:
    """Send an IQv2 query; each partition answers for itself. Exit code 1 when one failed."""
    given = fields or []
    without_csv(asked.output)
    with asked.store(store) as client:
        serde = key_serde(client)
        result = client.query(
            type_,
            partitions=numbers(partitions),
            options=asked.options,
            execution_info=execution_info,
            limit=limit,
            times=times,
            cursor=cursor,
            members=_fields(None if type_ == _BY_INDEX else serde, given),
        )
    print_results(list(result.partition_results.values()), asked.output)
    if result.cursor is not None:
        tell_of_more(result)
    if any(not one.is_success for one in result.partition_results.values()):
        raise typer.Exit(1)


def _print_rows(rows: Iterable[Row], times: Times | None, output: Output, columns: Columns) -> None:
    shown = times_shown(times, output)
    print_rows((key_document(row, shown) for row in rows), output, _COLUMNS, columns)


def _fields(serde: Serde | None, texts: list[str]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for text in texts:
        name, value = _field(serde, text)
        if name in fields:
            raise MalformedRequestError(f"the field {name} is given twice")
        fields[name] = value
    return fields


def _field(serde: Serde | None, text: str) -> tuple[str, Any]:
    """A field of a query; `serde` is that of keys in it, None: they are keys of an index."""
    name, separator, value = text.partition("=")
    if not separator:
        raise MalformedRequestError(f"a field is written name=value, not {text!r}")
    return name, _key(serde if name in _KEY_FIELDS else None, value)


def _key(serde: Serde | None, text: str) -> Any:
    """A key; without a serde JSON, or else text."""
    return json_or_text(text) if serde is None else key_of(serde, text)
