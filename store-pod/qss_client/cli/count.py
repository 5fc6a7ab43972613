"""The command `qss count`, which prints the number of rows."""

from typing import Annotated

import typer

from qss_client.cli.asking import Asking, asking
from qss_client.cli.options import Name, Partitions, numbers
from qss_client.cli.printing import Output, print_document


def register(app: typer.Typer) -> None:
    app.command()(count)


@asking
def count(
    store: Name,
    exact: Annotated[  # noqa: FBT002 an option of a command.
        bool, typer.Option("--exact", help="count every row; default: RocksDB's estimate")
    ] = False,
    partitions: Partitions = None,
    *,
    asked: Asking,
) -> None:
    """Count the rows: by RocksDB's estimate, or exactly."""
    with asked.store(store) as client:
        counted = client.count(asked.options, exact=exact, partitions=numbers(partitions))
    if asked.output is not Output.TABLE:
        print_document({"count": counted, "exact": exact}, asked.output)
    elif exact:
        typer.echo(str(counted))
    else:
        typer.echo(f"about {counted} (an estimate; --exact counts every row)")
