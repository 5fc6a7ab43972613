"""The commands that change a running store: `qss scale`, `standbys`, `apply`, `move` and others.

They change the stored resource; the running `qss up` does the work. Each command imports the rules'
language itself, if it needs it: that takes half a second.
"""

import asyncio
import re
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from qss_client.cli.options import state_directory
from qss_client.cli.shell.names import store_names
from qss_core.errors import MalformedRequestError
from qss_core.model import StoreName
from qss_operator.local.directory.state import DEFAULT_STATE, StateDirectory
from qss_operator.local.pods import signal_pod
from qss_operator.local.processes import signal_process
from qss_operator.local.status.present import why_waits

if TYPE_CHECKING:
    from qss_operator.local.changes import Change

# A number below 0 must not be taken for an option.
_WITH_NUMBERS = {"ignore_unknown_options": True}
_TOLD_EACH_S = 2.0

StateOption = Annotated[
    Path,
    typer.Option(
        "--state-dir",
        envvar="QSS_STATE_DIR",
        parser=state_directory,
        metavar="PATH",
        help="Where resources, status, data and logs are kept.",
    ),
]
Store = Annotated[
    str,
    typer.Argument(
        help="A store of the state directory.", show_default=False, autocompletion=store_names
    ),
]


def register_store_commands(app: typer.Typer) -> None:
    """Add the commands to `qss`."""
    app.command(context_settings=_WITH_NUMBERS)(scale)
    app.command(context_settings=_WITH_NUMBERS)(standbys)
    app.command()(apply)
    app.command(context_settings=_WITH_NUMBERS)(move)
    app.command()(restart)
    app.command()(kill)
    app.command()(freeze)


def scale(
    store: Store,
    replicas: Annotated[
        str, typer.Argument(metavar="N", help="The number of pods.", show_default=False)
    ],
    *,
    state_dir: StateOption = DEFAULT_STATE,
) -> None:
    """Set the number of a store's pods (spec.replicas)."""
    from qss_operator.local.changes import set_replicas

    state = StateDirectory(state_dir)
    change = asyncio.run(set_replicas(state, store, _number(replicas)))
    typer.echo(_number_told(change, "replicas", state))


def standbys(
    store: Store,
    number: Annotated[
        str,
        typer.Argument(metavar="N", help="The standbys of each partition.", show_default=False),
    ],
    *,
    state_dir: StateOption = DEFAULT_STATE,
) -> None:
    """Set the number of standbys of each partition of a store (spec.standbys)."""
    from qss_operator.local.changes import set_standbys

    state = StateDirectory(state_dir)
    change = asyncio.run(set_standbys(state, store, _number(number)))
    typer.echo(_number_told(change, "standbys", state))


def apply(
    files: Annotated[
        list[Path],
        typer.Argument(help="YAML files with QueryableStateStore resources.", show_default=False),
    ],
    *,
    state_dir: StateOption = DEFAULT_STATE,
) -> None:
    """Take changed files of stores over while the stores run."""
    from qss_operator.local.changes import apply_files

    state = StateDirectory(state_dir)
    for change in asyncio.run(apply_files(files, state)):
        if change.is_change:
            typer.echo(f"{change.store}: changed{_what_follows(change, state)}")
        else:
            typer.echo(f"{change.store}: unchanged")


def move(
    store: Store,
    partition: Annotated[str, typer.Argument(help="A partition's number.", show_default=False)],
    pod: Annotated[
        str,
        typer.Argument(
            help="The pod by its number or name, as 2 or words-2; `any`: no certain pod any more.",
            show_default=False,
        ),
    ],
    *,
    state_dir: StateOption = DEFAULT_STATE,
) -> None:
    """Ask that the active of a partition is on a pod."""
    from qss_operator.local.changes import ANY_POD, ask_for_active

    state = StateDirectory(state_dir)
    change = asyncio.run(ask_for_active(state, store, _number(partition), pod))
    where = "on any pod" if pod == ANY_POD else f"on {store}-{pod.removeprefix(f'{store}-')}"
    asked = f"{store}: the active of partition {partition} is asked to be {where}"
    follows = _what_follows(change, state) if change.is_change else ", as before"
    typer.echo(asked + follows)


def restart(store: Store, *, state_dir: StateOption = DEFAULT_STATE) -> None:
    """Restart the pods of a store, one after the other, while the others serve."""
    from qss_operator.local.changes import ask_for_restart

    state = StateDirectory(state_dir)
    change = asyncio.run(ask_for_restart(state, store))
    typer.echo(f"{store}: its pods restart one after the other{_what_follows(change, state)}")


def kill(
    pod: Annotated[str, typer.Argument(help="A pod by its name, as words-2.", show_default=False)],
    *,
    state_dir: StateOption = DEFAULT_STATE,
) -> None:
    """End the process of a pod at once (SIGKILL); `qss up` starts it again."""
    state = StateDirectory(state_dir)
    process = signal_pod(state, pod, signal.SIGKILL)
    store = pod.rpartition("-")[0]
    follows = f"`qss up` starts it again, and {_watch(store, state)} shows it"
    if waits := why_waits(state, StoreName(store)):
        follows = f"its start waits: {waits}"
    typer.echo(f"killed {pod} (process {process.pid}); {follows}")


def freeze(
    pod: Annotated[str, typer.Argument(help="A pod by its name, as words-2.", show_default=False)],
    *,
    seconds: Annotated[
        float,
        typer.Option(min=1.0, max=600.0, help="How long. After Ctrl-C the pod goes on at once."),
    ] = 15.0,
    state_dir: StateOption = DEFAULT_STATE,
) -> None:
    """Freeze a pod (SIGSTOP), so that standbys take over; then it goes on (SIGCONT)."""
    state = StateDirectory(state_dir)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # An exit lets the pod go on, too.
    process = signal_pod(state, pod, signal.SIGSTOP)
    try:
        watch = _watch(pod.rpartition("-")[0], state)
        typer.echo(f"froze {pod} (process {process.pid}) for {seconds:g} s; {watch} shows it")
        ends_s = time.monotonic() + seconds
        while (left_s := ends_s - time.monotonic()) > 0:
            time.sleep(min(_TOLD_EACH_S, left_s))  # noqa: TID251 the pod stands still so long.
            if left_s > _TOLD_EACH_S:
                typer.echo(f"{pod} goes on in {left_s - _TOLD_EACH_S:.0f} s", err=True)
    finally:
        signal_process(process, signal.SIGCONT)
    typer.echo(f"{pod} goes on")


def _number(text: str) -> int:
    """The number that a person gave; raises MalformedRequestError for other text."""
    if not re.fullmatch(r"[0-9]{1,9}", text, re.ASCII):
        raise MalformedRequestError(f"a number from 0 to 999999999 is expected, not {text[:40]!r}")
    return int(text)


def _number_told(change: "Change", member: str, state: StateDirectory) -> str:
    before, after = (one["spec"].get(member, "unset") for one in (change.before, change.after))
    if before == after:
        return f"{change.store}: spec.{member} is {after} already"
    return f"{change.store}: spec.{member} {before} -> {after}{_what_follows(change, state)}"


def _what_follows(change: "Change", state: StateDirectory) -> str:
    """Words when the change is carried out, and the command that shows it."""
    running = state.running()
    if not running:
        return ", which the next `qss up` carries out: nothing runs"
    if change.store not in running:
        return ", which is not carried out before `qss up` is started with this store"
    if waits := why_waits(state, change.store):
        return f", which waits: {waits}"
    return f"; {_watch(change.store, state)} shows the progress"


def _watch(store: str, state: StateDirectory) -> str:
    return f"`qss status {store} --watch{state.option}`"
