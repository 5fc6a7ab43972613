"""The commands `qss up`, `qss down` and `qss status`; `stores` has those of one store.

What only `up` needs (the rules' language, HTTP) is imported there, as it takes half a second.
"""

import asyncio
import logging
import shlex
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from qss_client.cli.shell.names import OneOrAll
from qss_operator.commands.stores import StateOption, register_store_commands
from qss_operator.local.cluster import POD_COMMAND
from qss_operator.local.directory.ports import moves
from qss_operator.local.directory.state import DEFAULT_STATE, StateDirectory, version_of
from qss_operator.local.status.view import Output, show_statuses, statuses_table
from qss_operator.local.status.watch import watch_statuses
from qss_operator.local.stop import stop_stores
from qss_operator.planning.annotations import how_to_apply
from qss_operator.planning.status import attention, is_ready, why

if TYPE_CHECKING:
    from collections.abc import Mapping

    from qss_core.model import StoreName
    from qss_operator.local.run import RunningStores
    from qss_operator.planning.model import StoreStatus

_WATCH_S = 0.2
_HOW_TO_STOP = "Ctrl-C stops the stores; the data stays"
_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

Files = Annotated[
    list[Path] | None,
    typer.Argument(
        help="YAML files with QueryableStateStore resources; without any, all stores that are in "
        "the state directory.",
        show_default=False,
    ),
]


def register(app: typer.Typer) -> None:
    """Add the commands to `qss`."""
    app.command()(up)
    app.command()(down)
    app.command()(status)
    register_store_commands(app)


def up(
    files: Files = None,
    *,
    state_dir: StateOption = DEFAULT_STATE,
    detach: Annotated[
        bool, typer.Option("--detach", "-d", help="Run in the background; return when ready.")
    ] = False,
    timeout_s: Annotated[
        float, typer.Option("--timeout", help="With --detach: seconds to wait for ready stores.")
    ] = 60.0,
    background: Annotated[bool, typer.Option("--background", hidden=True)] = False,
    pod_command: Annotated[str | None, typer.Option("--pod-command", hidden=True)] = None,
) -> None:
    """Run stores on this machine, each pod as a process, until Ctrl-C.

    The data stays in the state directory when the stores are stopped.
    """
    from qss_operator.local.prepare import stored_files

    state = StateDirectory(state_dir)
    files = files or stored_files(state)
    command = tuple(shlex.split(pod_command)) if pod_command else POD_COMMAND
    if detach:
        from qss_operator.local.background import start_in_background

        ports = {name: state.read_ports(name) for name in state.stores()}
        options = ["--background", "--pod-command", shlex.join(command)]
        running, missing = asyncio.run(
            start_in_background(files, state, options, timeout_s, _tell_wait)
        )
        statuses = running.statuses()
        typer.echo(statuses_table(statuses))
        for line in _attentions(statuses):
            typer.echo(line, err=True)
        for name, before in ports.items():
            for line in moves(name, before, state.read_ports(name)):
                typer.echo(line, err=True)
        for line in missing:
            typer.echo(f"not waited for: {line}; `qss status{state.option}` shows why", err=True)
        typer.echo(f"running in the background: `qss down{state.option}` stops it")
        return
    logging.basicConfig(
        level=logging.INFO if background else logging.WARNING,
        format="%(asctime)s %(levelname)s %(message)s",
    )
    asyncio.run(_run_until_stopped(files, state, command, "" if background else _HOW_TO_STOP))


def _tell_wait(reasons: str) -> None:
    for line in reasons.splitlines():
        typer.echo(f"waiting: {line}", err=True)


def down(*, state_dir: StateOption = DEFAULT_STATE) -> None:
    """Stop the stores of a state directory and every pod; the data stays."""
    state = StateDirectory(state_dir)
    ended = asyncio.run(stop_stores(state, _tell_wait))
    typer.echo("stopped" if ended else "nothing was running")
    if state.stores():
        typer.echo(f"the data is kept in {state_dir}; delete it with: rm -r {state_dir}")


def status(
    store: OneOrAll = None,
    *,
    state_dir: StateOption = DEFAULT_STATE,
    output: Annotated[Output, typer.Option("--output", "-o", help="How it is shown.")] = (
        Output.TABLE
    ),
    watch: Annotated[
        bool, typer.Option("--watch", "-w", help="Show each change, until Ctrl-C.")
    ] = False,
) -> None:
    """Show the published status of the stores of a state directory.

    Of one store also its conditions, which pod is active, standby and learner for which
    partitions, and how many replicas move; -o json has all of it.
    """
    state = StateDirectory(state_dir)
    if watch:
        asyncio.run(watch_statuses(state, store, output))
    else:
        typer.echo(show_statuses(state, store, output))


async def _run_until_stopped(
    files: list[Path], state: StateDirectory, command: tuple[str, ...], how_to_stop: str
) -> None:
    from qss_operator.local.run import running_stores

    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in _STOP_SIGNALS:
        loop.add_signal_handler(number, stop.set)
    async with running_stores(files, state, command) as running:
        telling = asyncio.create_task(_tell(running, how_to_stop))
        deleted = asyncio.create_task(running.wait_until_deleted())
        changed = asyncio.create_task(_tell_changes(files, state))
        stopped = asyncio.create_task(stop.wait())
        await asyncio.wait([stopped, deleted], return_when=asyncio.FIRST_COMPLETED)
        for task in (telling, changed, stopped):
            task.cancel()
        is_deleted = deleted.done()
        deleted.cancel()
        gone = state.path / "lock" if state.path.exists() else state.path
        typer.echo(f"{gone} was deleted: " * is_deleted + "stopping the pods")
    typer.echo("stopped" if is_deleted else f"stopped; the data is kept in {state.path}")


def _attentions(statuses: "Mapping[StoreName, StoreStatus]") -> list[str]:
    """A line for each store that serves and still needs attention."""
    told = ((name, attention(status)) for name, status in statuses.items())
    return [f"{name}: {one.reason}: {one.message}" for name, one in told if one is not None]


async def _tell_changes(files: list[Path], state: StateDirectory) -> None:
    """Say once of each change of a file that it is not taken over by itself.

    A file that equals the running stores, such as one that was put back, is not told of.
    """
    from qss_operator.local.changes import says_something_else

    stored = {state.resource_file(name).resolve() for name in state.stores()}
    known = {file: version_of(file) for file in files if file.resolve() not in stored}
    while True:
        await asyncio.sleep(_WATCH_S)
        for file, version in known.items():
            if (now := version_of(file)) == version:
                continue
            known[file] = now
            if not says_something_else(file, state):
                continue
            how = how_to_apply(state.option).replace("FILE", shlex.quote(str(file)))
            typer.echo(f"{file} was changed, and its stores run unchanged: {how} takes it over")


async def _tell(running: "RunningStores", how_to_stop: str) -> None:
    """Print each change of a status, and the table once all stores are ready."""
    told: dict[str, list[str]] = {}
    was_ready = False
    while True:
        statuses = running.statuses()
        for name, entry in statuses.items():
            lines = [f"{name}: {why(entry)}", *_attentions({name: entry})]
            for line in lines:
                if line not in told.get(name, ()):
                    typer.echo(line)
            told[name] = lines
        all_ready = all(map(is_ready, statuses.values()))
        if all_ready and not was_ready:
            typer.echo(statuses_table(statuses))
            typer.echo(how_to_stop)
        was_ready = all_ready
        await asyncio.sleep(_WATCH_S)
