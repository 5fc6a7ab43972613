"""The commands `qss windows`, `qss sessions` and `qss versions`."""

from collections.abc import Iterator
from typing import Annotated, Any

import typer

from qss_client.cli.advice import advising_of_times
from qss_client.cli.columns import columns_of
from qss_client.cli.option_groups import Asking, asking
from qss_client.cli.options import (
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
    print_rows,
    session_document,
    times_shown,
    told_of_more,
    version_document,
    window_document,
)
from qss_client.reads.requests import ReadOptions
from qss_client.reads.responses import VersionRow
from qss_client.store import Store
from qss_core.errors import KeyNotFoundError, MalformedRequestError
from qss_core.queries.timed_parameters import OrderBy
from qss_core.queries.types import Order

_WINDOW = ["key", "windowStart", "windowEnd", "sequence", "value", "timestamp", "headers"]
_SESSION = ["key", "sessionStart", "sessionEnd", "value", "headers"]
_VERSION = ["key", "validFrom", "validTo", "value"]

Key = Annotated[str | None, typer.Argument(help="one key; without it, all keys")]
KeyFrom = Annotated[str | None, typer.Option(help="the first key")]
KeyTo = Annotated[str | None, typer.Option(help="the last key")]
InOrder = Annotated[
    Order | None, typer.Option("--order", help="forward, which is the usual order, or backward")
]
HistoryOrder = Annotated[Order, typer.Option("--order", help="oldest or newest first")]
Descending = Annotated[bool, typer.Option("--descending", help="backward: --order DESCENDING")]
By = Annotated[OrderBy, typer.Option(help="partition by partition, or over all of them by time")]


def register(app: typer.Typer) -> None:
    app.command()(windows)
    app.command()(sessions)
    app.command()(versions)


@asking
def windows(
    store: Name,
    key: Key = None,
    from_: Annotated[str | None, typer.Option("--from", help="the first window start")] = None,
    to: Annotated[str | None, typer.Option(help="the last window start")] = None,
    key_from: KeyFrom = None,
    key_to: KeyTo = None,
    order: InOrder = None,
    descending: Descending = False,  # noqa: FBT002 an option of a command.
    order_by: By = OrderBy.KEY,
    limit: Limit = None,
    partition: Partition = None,
    partitions: Partitions = None,
    times: ShownTimes = None,
    columns: ShownColumns = None,
    *,
    asked: Asking,
) -> None:
    """Print windows by their start: of a key, of keys between two, or of all."""
    with (
        asked.store(store) as client,
        advising_of_times(client, ("--from", from_), ("--to", to)),
    ):
        rows = client.windows(
            from_=from_,
            to=to,
            **_keys(client, key, key_from, key_to),
            order=_order(order, descending=descending),
            order_by=order_by,
            limit=rows_to_ask(limit),
            partitions=numbers(partitions),
            options=_options(asked, key, partition),
        )
        shown = times_shown(times, asked.output)
        documents = (window_document(row, shown) for row in told_of_more(rows, limit))
        print_rows(documents, asked.output, _WINDOW, columns_of(columns))


@asking
def sessions(
    store: Name,
    key: Key = None,
    end_from: Annotated[
        str | None, typer.Option(help="sessions that end at this time or later")
    ] = None,
    start_to: Annotated[
        str | None, typer.Option(help="sessions that start at this time or earlier")
    ] = None,
    key_from: KeyFrom = None,
    key_to: KeyTo = None,
    order: InOrder = None,
    descending: Descending = False,  # noqa: FBT002 an option of a command.
    order_by: By = OrderBy.KEY,
    limit: Limit = None,
    partition: Partition = None,
    partitions: Partitions = None,
    times: ShownTimes = None,
    columns: ShownColumns = None,
    *,
    asked: Asking,
) -> None:
    """Print sessions: of a key, of keys between two, or of all."""
    with (
        asked.store(store) as client,
        advising_of_times(client, ("--end-from", None), ("--start-to", None)),
    ):
        rows = client.sessions(
            end_from=end_from,
            start_to=start_to,
            **_keys(client, key, key_from, key_to),
            order=_order(order, descending=descending),
            order_by=order_by,
            limit=rows_to_ask(limit),
            partitions=numbers(partitions),
            options=_options(asked, key, partition),
        )
        shown = times_shown(times, asked.output)
        documents = (session_document(row, shown) for row in told_of_more(rows, limit))
        print_rows(documents, asked.output, _SESSION, columns_of(columns))


@asking
def versions(
    store: Name,
    key: Annotated[str, typer.Argument(help="the key")],
    as_of: Annotated[str | None, typer.Option(help="only the version of this time")] = None,
    from_: Annotated[
        str | None, typer.Option("--from", help="versions valid at this time or later")
    ] = None,
    to: Annotated[str | None, typer.Option(help="versions valid at this time or earlier")] = None,
    order: HistoryOrder = Order.DESCENDING,
    limit: Limit = None,
    partition: Partition = None,
    times: ShownTimes = None,
    columns: ShownColumns = None,
    *,
    asked: Asking,
) -> None:
    """Print the versions of a key, or that of a time; exit code 3 when there was none then."""
    if as_of is not None and (from_ is not None or to is not None):
        raise MalformedRequestError("--as-of is for one version: without --from and --to")
    with (
        asked.store(store) as client,
        advising_of_times(client, ("--from", from_), ("--to", to)),
    ):
        encoded = key_of(key_serde(client), key)
        rows: Iterator[VersionRow]
        if as_of is None:
            rows = client.versions(
                encoded,
                from_=from_,
                to=to,
                order=order,
                limit=rows_to_ask(limit),
                options=asked.of_key_in(partition),
            )
        else:
            found = client.version(encoded, as_of, asked.of_key_in(partition))
            if found is None:
                raise KeyNotFoundError(f"store {store} has no {key!r} as of {as_of}")
            rows = iter((found,))
        shown = times_shown(times, asked.output)
        documents = (version_document(row, shown) for row in told_of_more(rows, limit))
        print_rows(documents, asked.output, _VERSION, columns_of(columns))


def _options(asked: Asking, key: str | None, partition: int | None) -> ReadOptions:
    if partition is not None and key is None:
        raise MalformedRequestError("--partition is that of a key: for all keys take --partitions")
    return asked.of_key_in(partition)


def _order(given: Order | None, *, descending: bool) -> Order:
    """The order that --order and --descending give; ascending without them."""
    if not descending:
        return given or Order.ASCENDING
    if given not in (None, Order.DESCENDING):
        raise MalformedRequestError(f"--descending is for --order DESCENDING, not {given}")
    return Order.DESCENDING


def _keys(
    client: Store, key: str | None, key_from: str | None, key_to: str | None
) -> dict[str, Any]:
    """The given keys, decoded for the client."""
    serde = key_serde(client)
    given = {"key": key, "key_from": key_from, "key_to": key_to}
    return {name: None if text is None else key_of(serde, text) for name, text in given.items()}
