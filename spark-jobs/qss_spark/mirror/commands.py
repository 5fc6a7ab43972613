"""The command `qss mirror`: what the state of a Spark query has, and a copy of it in a store."""

import time
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any

import typer

from qss_client.cli.asking import Reaching, reaching
from qss_client.cli.options import connection_of
from qss_client.cli.printing import Output, print_rows
from qss_client.clock import Clock, SystemClock
from qss_client.http.retries import RetryLimits
from qss_client.store import Store
from qss_client.writes.writers import list_writers
from qss_core.errors import MalformedRequestError
from qss_core.wire.writer_reports import check_writer_name
from qss_spark.mirror.computed_values import ComputedValues
from qss_spark.mirror.copy import StateCopy
from qss_spark.mirror.follower import StateFollower
from qss_spark.mirror.rows import StoreRows
from qss_spark.mirror.spark_rows import read_by_spark
from qss_spark.mirror.verification import copied_batch
from qss_spark.mirror.verification import verify as verify_rows
from qss_spark.state.checkpoint import Checkpoint
from qss_spark.state.inventory import Inventory, Item
from qss_spark.state.tables import Shape
from qss_spark.state.types import Field, text_of, unique_names

_POLL_S = 0.01
_RENEW_S = 60.0
_READ_S = 60.0  # For each page of a comparison.
_COLUMNS = ["operator", "name", "part", "key", "value", "rows", "reason"]


def register(app: typer.Typer) -> None:
    app.command()(mirror)


@reaching
def mirror(
    checkpoint: Annotated[
        Path, typer.Argument(help="the checkpoint directory of a streaming query")
    ],
    store: Annotated[
        str | None, typer.Option(help="copy a part of the state into this store")
    ] = None,
    operator: Annotated[int | None, typer.Option(min=0, help="the number of the operator")] = None,
    part: Annotated[
        str | None, typer.Option(help="the variable of a processor, or the side of a join")
    ] = None,
    writer: Annotated[
        str | None, typer.Option(help="the writer's name in the store; default: the store's name")
    ] = None,
    once: Annotated[  # noqa: FBT002
        bool, typer.Option("--once", help="end with the newest committed batch")
    ] = False,
    keep_deleted: Annotated[  # noqa: FBT002
        bool, typer.Option("--keep-deleted", help="rows that the query drops stay in the store")
    ] = False,
    value: Annotated[
        list[str] | None,
        typer.Option(help="a column of the values, as 'mean=sum_1/count_1'; several times"),
    ] = None,
    verify: Annotated[  # noqa: FBT002
        bool, typer.Option("--verify", help="compare all rows of the store with Spark's own reader")
    ] = False,
    status: Annotated[  # noqa: FBT002
        bool, typer.Option("--status", help="say how far the store is behind the query")
    ] = False,
    *,
    reached: Reaching,
) -> None:
    """List the state of a Spark query, or copy a part of it into a store while the query runs.

    The checkpoint is only read. A copy goes on until Ctrl-C, and started again behind its last
    batch. A list has exit code 1 where a part of the state cannot be read, and a comparison where
    a row differs.
    """
    if store is None:
        alone = (operator is not None, part is not None, writer is not None, once, keep_deleted)
        if any((*alone, value, verify, status)):
            raise MalformedRequestError(
                "--operator, --part, --writer, --once, --keep-deleted, --value, --verify and "
                "--status go with --store"
            )
        _list(checkpoint, reached.output)
        return
    if once + verify + status > 1:
        raise MalformedRequestError("--once, --verify and --status: give one of them")
    follower = StateFollower(checkpoint, operator, part)
    with connection_of(store, reached.place, writes=True) as to, closing(to.http()) as http:
        name = check_writer_name(writer or to.store)
        if verify or status:
            writers = list_writers(http, to.urls, to.store, direct=to.direct)
            copied = copied_batch(follower, writers, name)
            if status:
                _tell_status(follower.checkpoint, to.store, copied, reached.output)
                return
            with to.client(RetryLimits(deadline_s=_READ_S), raw=True) as client:
                computed = ComputedValues(value) if value else None
                _verify(follower, client, copied, keep_deleted=keep_deleted, computed=computed)
            return
        copy = StateCopy(
            follower,
            http,
            to.urls,
            to.store,
            name,
            direct=to.direct,
            keep_deleted=keep_deleted,
            values=value or (),
        )
        with closing(copy):
            _follow(copy, follower.checkpoint, once=once)


def _verify(
    follower: StateFollower,
    client: Store,
    batch: int,
    *,
    keep_deleted: bool,
    computed: ComputedValues | None,
) -> None:
    columns = follower.columns_of(batch)
    key, value = (columns.field(name).type for name in ("key", "value"))
    rows = StoreRows(client.metadata().definition, key, value, computed=computed)
    by_spark = read_by_spark(follower.checkpoint.path, batch, follower.place, columns)
    verdict = verify_rows(by_spark, client, batch, rows, keep_deleted=keep_deleted)
    if not verdict.unlike:
        typer.echo(f"batch {batch}: {verdict.rows} rows, all as Spark reads them")
        return
    typer.echo("\n".join(verdict.differences))
    typer.echo(f"batch {batch}: {verdict.unlike} rows differ from the {verdict.rows} of Spark")
    raise typer.Exit(1)


def _tell_status(checkpoint: Checkpoint, store: str, batch: int, output: Output) -> None:
    newest = checkpoint.newest()
    committed_ms = checkpoint.committed_ms(batch + 1)
    behind_ms = 0 if newest == batch else None
    if newest > batch and committed_ms is not None:
        behind_ms = max(0, SystemClock().wall_ms() - committed_ms)
    told = {
        "store": store,
        "batch": batch,
        "committed": newest,
        "batchesBehind": max(0, newest - batch),
        "behindMs": behind_ms,
    }
    print_rows([told], output, list(told))


def _list(checkpoint: Path, output: Output) -> None:
    found = Inventory(checkpoint)
    batch, items = found.batch, [found.counted(one) for one in found.items]
    if output is Output.TABLE:
        provider = "RocksDB" if batch.is_rocksdb else "HDFS-backed"
        partitions = f"{batch.partitions} partitions"
        typer.echo(f"batch {batch.number}, {provider} state in {partitions}, {batch.codec}\n")
    if not items and output is Output.TABLE:
        typer.echo("the query keeps no state")
        return
    print_rows([_document(one) for one in items], output, _COLUMNS)
    if any(one.reason is not None for one in items):
        raise typer.Exit(1)


def _follow(copy: StateCopy, checkpoint: Checkpoint, *, once: bool) -> None:
    clock = SystemClock()
    heard_s = clock.monotonic_s()
    if copy.last is not None:
        typer.echo(f"the store has batch {copy.last}")
    while True:
        written = copy.step()
        if written is not None:
            heard_s = clock.monotonic_s()
            what = "the whole state" if written.is_whole else "changes"
            behind = _since_commit(checkpoint, written.batch, clock)
            typer.echo(f"batch {written.batch}: {what}, {written.rows} rows, {behind}")
            continue
        if once:
            return
        if clock.monotonic_s() - heard_s > _RENEW_S:
            copy.renew()
            heard_s = clock.monotonic_s()
        time.sleep(_POLL_S)  # noqa: TID251 Spark tells nobody that it has committed a batch.


def _since_commit(checkpoint: Checkpoint, batch: int, clock: Clock) -> str:
    """The time since Spark committed a batch, as text."""
    committed_ms = checkpoint.committed_ms(batch)
    if committed_ms is None:
        return "Spark has deleted its commit"
    return f"{max(0, clock.wall_ms() - committed_ms)} ms after its commit"


def _document(item: Item) -> dict[str, Any]:
    document: dict[str, Any] = {"operator": item.operator, "name": item.name}
    if item.part:
        document["part"] = item.part
    if item.place is not None:
        value = _columns(item.place.schema.value)
        is_list = item.place.shape is Shape.LIST
        document["key"] = _columns(item.place.schema.key)
        document["value"] = f"list of ({value})" if is_list else value
    document["rows"] = item.rows
    return document if item.reason is None else {**document, "reason": item.reason}


def _columns(fields: tuple[Field, ...]) -> str:
    """The columns as Spark's SQL writes them; repeated names are numbered."""
    names = unique_names(fields)
    return ", ".join(f"{name} {text_of(one.type)}" for name, one in zip(names, fields, strict=True))
