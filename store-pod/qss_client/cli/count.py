"""The command `qss count`, which prints the number of rows."""

from typing import Annotated

import typer

from qss_client.cli.option_groups import Asking, asking
from qss_client.cli.options import Name, Partitions, numbers
from qss_client.cli.printing import Output, print_document, print_rows


def register(app: typer.Typer) -> None:
    app.command()(count)


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
        _print_each(store, asked, numbers(partitions), exact=exact)
        return
    with asked.store(store) as client:
        counted = client.count(asked.options, exact=exact, partitions=numbers(partitions))
    if asked.output is not Output.TABLE:
        print_document({"count": counted, "exact": exact}, asked.output)
    elif exact:
        typer.echo(str(counted))
    else:
        typer.echo(f"about {counted} (an estimate; --exact counts every row)")


def _print_each(store: str, asked: Asking, chosen: list[int] | None, *, exact: bool) -> None:
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
