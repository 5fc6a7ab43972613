"""The command `qss mirror`: lists the state of a Spark query, and copies it into stores."""

import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from qss_client.cli.option_groups import Reaching, reaching
from qss_client.cli.options import connection_of
from qss_client.cli.printing import Output, print_rows
from qss_client.clock import SystemClock
from qss_client.http.retries import RetryLimits
from qss_client.http.sync_http import SyncHttp
from qss_client.kube.connection import ConnectionOptions
from qss_client.writes.writers import list_writers
from qss_core.errors import MalformedRequestError
from qss_core.text import listed
from qss_core.wire.writer_reports import check_writer_name
from qss_spark.mirroring.copies.state_copies import StateCopies
from qss_spark.mirroring.copies.state_copy import StateCopy
from qss_spark.mirroring.follow_loop import Teller, follow, lag_of, looking, telling
from qss_spark.mirroring.listing import checkpoints_in, list_states
from qss_spark.mirroring.metrics import MirrorMetrics
from qss_spark.mirroring.rows.computed_values import ComputedValues
from qss_spark.mirroring.rows.opaque_buffers import note_of
from qss_spark.mirroring.rows.spark_rows import read_by_spark
from qss_spark.mirroring.rows.store_rows import StoreRows
from qss_spark.mirroring.state_follower import StateFollower
from qss_spark.mirroring.stores import fitting_stores, mirror_file_of, name_of, yaml_of
from qss_spark.mirroring.verification import Verdict, copied_batch, verify
from qss_spark.mirroring.wanted_copies import WantedCopies, WantedCopy, read_wanted
from qss_spark.state.checkpoint import Checkpoint, local_directory
from qss_spark.state.inventory import Inventory

_READ_S = 60.0  # For each page of a comparison.
# The options that a list does not have.
_OF_COPIES = (
    *("--operator", "--part", "--writer", "--keep-deleted", "--value"),
    *("--once", "--verify", "--status", "--metrics-port"),
)


def register(app: typer.Typer) -> None:
    app.command(name="mirror")(mirror)


@reaching
def mirror(
    checkpoint: Annotated[
        Path, typer.Argument(help="the checkpoint of a query; to list, also a directory of several")
    ],
    store: Annotated[
        str | None, typer.Option(help="copy a part of the state into this store")
    ] = None,
    operator: Annotated[int | None, typer.Option(min=0, help="the number of the operator")] = None,
    part: Annotated[
        str | None,
        typer.Option(
            "--part",
            "--variable",
            "--side",
            help="the variable of a processor, or the side of a join; the names mean the same",
        ),
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
    file: Annotated[
        Path | None, typer.Option(help="a YAML file of several stores, instead of --store")
    ] = None,
    verify: Annotated[  # noqa: FBT002
        bool, typer.Option("--verify", help="compare all rows of the store with Spark's own reader")
    ] = False,
    status: Annotated[  # noqa: FBT002
        bool, typer.Option("--status", help="say how far the store is behind the query")
    ] = False,
    print_stores: Annotated[  # noqa: FBT002
        bool, typer.Option("--print-stores", help="print stores that fit the parts, as YAML")
    ] = False,
    up: Annotated[  # noqa: FBT002
        bool, typer.Option("--up", help="start such stores on this machine, and write their files")
    ] = False,
    metrics_port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="serve /metrics for Prometheus there")
    ] = None,
    *,
    reached: Reaching,
) -> None:
    """List the state of a Spark query, or copy parts of it into stores while the query runs.

    The checkpoint is only read. A copy goes on until Ctrl-C, and started again behind its last
    batch. A list has exit code 1 where a part of the state cannot be read, and a comparison where
    a row differs.
    """
    checkpoint = local_directory(checkpoint)
    of_store = (operator is not None, part is not None, writer is not None, keep_deleted, value)
    if file is not None and (store is not None or any(of_store)):
        raise MalformedRequestError(
            "the file of --file has these options for each store: leave out --store, --operator, "
            "--part, --writer, --keep-deleted and --value"
        )
    if store is None and file is None:
        given = (*of_store, once, verify, status, metrics_port is not None)
        if alone := [name for name, is_given in zip(_OF_COPIES, given, strict=True) if is_given]:
            raise MalformedRequestError(f"{listed(alone)}: only with --store or --file")
        if print_stores or up:
            _offer(checkpoint, reached, is_up=up)
        else:
            with telling(f"reads the state of {checkpoint}"):
                is_whole = list_states(checkpoint, reached.output)
            if not is_whole:
                raise typer.Exit(1)
        return
    if once + verify + status + print_stores + up > 1:
        raise MalformedRequestError(
            "--once, --verify, --status, --print-stores and --up: give one of them"
        )
    if file is not None:
        wanted = read_wanted(file)
    else:
        assert store is not None, "it or the file was given"
        one = WantedCopy(
            store=store,
            operator=operator,
            part=part,
            keep_deleted=keep_deleted,
            value=tuple(value or ()),
        )
        wanted = WantedCopies(writer=writer or "", stores=(one,))
    with _places(checkpoint, wanted, reached) as places:
        if status:
            _tell_status(places, reached.output)
        elif verify:
            _compare(places)
        else:
            _copy(places, once=once, metrics_port=metrics_port)


def _offer(checkpoint: Path, reached: Reaching, *, is_up: bool) -> None:
    """Prints stores that fit, or starts them on this machine beside the file that fills them."""
    if inside := checkpoints_in(checkpoint):
        shown = listed([str(one) for one in inside])
        raise MalformedRequestError(f"{checkpoint} has several checkpoints, name one: {shown}")
    name = name_of(checkpoint.resolve().name)
    with telling(f"reads the state of {checkpoint}"):
        stores = fitting_stores(Inventory(checkpoint), name, is_local=is_up)
    if not is_up:
        typer.echo(yaml_of(stores), nl=False)
        return
    files = {Path(f"{name}-stores.yaml"): yaml_of(stores)}
    files[Path(f"{name}-mirror.yaml")] = mirror_file_of(stores, name)
    _make_files(files)
    given, filling = files
    state_dir = str(reached.place.state_dir)
    command = [sys.executable, "-m", "qss_client", "up", str(given), "--detach"]
    done = subprocess.run([*command, "--state-dir", state_dir], check=False)
    if done.returncode:
        raise typer.Exit(done.returncode)
    typer.echo(f"now: qss mirror {checkpoint} --file {filling}")


def _make_files(files: Mapping[Path, str]) -> None:
    """Makes all of the files, or none. Raises MalformedRequestError."""
    with ExitStack() as made:
        for file, text in files.items():
            try:
                with file.open("x") as opened:
                    made.callback(file.unlink)
                    opened.write(text)
            except OSError as error:
                raise MalformedRequestError(f"{file} cannot be made: {error.strerror}") from error
        made.pop_all()


@dataclass(frozen=True, slots=True)
class _Place:
    """A part of the state, and the connection to the store that gets it."""

    wanted: WantedCopy
    follower: StateFollower
    to: ConnectionOptions
    http: SyncHttp
    writer: str

    @property
    def checkpoint(self) -> Checkpoint:
        """The checkpoint that has the state."""
        return self.follower.checkpoint

    def copied(self) -> int:
        """The last batch that the store has. Raises StoreError where it has none."""
        writers = list_writers(self.http, self.to.urls, self.to.store, direct=self.to.direct)
        return copied_batch(self.follower, writers, self.writer)


@contextmanager
def _places(
    checkpoint: Path, wanted: WantedCopies, reached: Reaching
) -> Iterator[Sequence[_Place]]:
    with ExitStack() as stack:
        found = []
        for one in wanted.stores:
            follower = StateFollower(checkpoint, one.operator, one.part)
            place = replace(
                reached.place,
                url=one.url or reached.place.url,
                token_file=Path(one.token_file) if one.token_file else reached.place.token_file,
            )
            to = stack.enter_context(connection_of(one.store, place, writes=True))
            http = stack.enter_context(closing(to.http()))
            writer = check_writer_name(wanted.writer or to.store)
            found.append(_Place(one, follower, to, http, writer))
        yield found


def _copy(places: Sequence[_Place], *, once: bool, metrics_port: int | None) -> None:
    metrics, teller = MirrorMetrics(), Teller()
    checkpoint = places[0].checkpoint
    group: StateCopies | None = None
    metrics.watch(looking(checkpoint.path, lambda: group.last if group else None))
    if metrics_port is not None:
        typer.echo(f"metrics: http://127.0.0.1:{metrics.serve(metrics_port)}/metrics")
    with ExitStack() as stack:
        copies = {}
        stack.enter_context(teller)
        for one in places:
            if note := note_of(one.follower.place):
                typer.echo(f"{one.to.store}: {note}", err=True)
            copy = StateCopy(
                one.follower,
                one.http,
                one.to.urls,
                one.to.store,
                one.writer,
                direct=one.to.direct,
                keep_deleted=one.wanted.keep_deleted,
                values=one.wanted.value,
                staged=partial(teller.staged, one.to.store),
                begins=teller.begins,
            )
            copies[one.to.store] = stack.enter_context(closing(copy))
            if copy.last is not None:
                typer.echo(f"{one.to.store}: the store has batch {copy.last}")
        group = StateCopies(checkpoint, copies)
        try:
            follow(group, checkpoint, teller, metrics, once=once)
        finally:
            teller.end()


def _compare(places: Sequence[_Place]) -> None:
    """Prints a verdict for each store."""
    is_equal = True
    for one in places:
        with telling(f"{one.to.store}: compares its rows with those of Spark"):
            verdict = _verdict(one)
        of = f"{one.to.store}: batch {verdict.batch}"
        if verdict.unlike:
            is_equal = False
            typer.echo("\n".join(f"{one.to.store}: {what}" for what in verdict.differences))
            typer.echo(f"{of}: {verdict.unlike} rows differ from the {verdict.rows} of Spark")
        else:
            typer.echo(f"{of}: {verdict.rows} rows, all as Spark reads them")
    if not is_equal:
        raise typer.Exit(1)


def _verdict(one: _Place) -> Verdict:
    batch, wanted = one.copied(), one.wanted
    columns = one.follower.kept_columns(batch)
    by_spark = read_by_spark(one.checkpoint.path, batch, one.follower.place, columns)
    table = one.follower.shown(by_spark, batch)
    key, value = (table.schema.field(name).type for name in ("key", "value"))
    computed = ComputedValues(wanted.value, one.follower.opaque) if wanted.value else None
    with one.to.client(RetryLimits(deadline_s=_READ_S), raw=True) as client:
        rows = StoreRows(client.metadata().definition, key, value, computed=computed)
        return verify(table, client, batch, rows, keep_deleted=wanted.keep_deleted)


def _tell_status(places: Sequence[_Place], output: Output) -> None:
    told: list[dict[str, Any]] = []
    for one in places:
        batch = one.copied()
        behind, behind_s = lag_of(one.checkpoint, batch, SystemClock())
        told.append(
            {
                "store": one.to.store,
                "batch": batch,
                "committed": one.checkpoint.newest(),
                "batchesBehind": behind,
                "behindMs": round(behind_s * 1000),
            }
        )
    print_rows(told, output, list(told[0]))
