"""The command `qss`: its own commands, and those of other packages, found by entry points."""

import sys
from collections.abc import Callable, Sequence
from importlib.metadata import entry_points
from typing import Any

from qss_client.cli.program import MissingExtraError, empty_app, run_app
from qss_client.cli.shell.tab import words_to_complete

_GROUP = "qss.commands"
# The commands of each part, and the extra that the part needs, for parts that are not installed.
_KNOWN_COMMANDS = {
    "cluster": (
        "operator",
        ("up", "down", "status", "scale", "standbys", "apply", "move", "restart", "kill", "freeze"),
    ),
    "mirror": ("mirror", ("mirror",)),
    "spark": ("spark", ("demo",)),
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs `qss`, by default with the arguments of this process; ends the process."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    words = words_to_complete()
    # The last word may be the beginning of a command.
    wanted = given[:1] if words is None else words[:1]
    run_app("qss", lambda: make_app(wanted), given)


def make_app(wanted: Sequence[str] = ()) -> Any:
    """The typer app with all installed commands.

    If the part of the wanted command is known, the other parts are not imported: importing some
    takes seconds.
    """
    app = empty_app("qss", "Queryable State: ask any key of a streaming job's state over HTTP.")
    register_own(app)
    own = {entry.callback.__name__ for entry in app.registered_commands if entry.callback}
    if own & set(wanted):
        return app
    entries = sorted(entry_points(group=_GROUP), key=lambda entry: entry.name)
    owners = [entry for entry in entries if set(wanted) & set(_commands_of(entry.name))]
    for entry in owners or entries:
        try:
            register = entry.load()
        except ModuleNotFoundError as error:
            _register_missing(app, entry.name, str(error.name))
        else:
            register(app)
    return app


def register_own(app: Any) -> None:
    """Adds the commands of the client, which need no other part."""
    from qss_client.cli import queries, timed, writers
    from qss_client.cli.console import command as console
    from qss_client.cli.explain import command as explain
    from qss_client.cli.load import command as load
    from qss_client.cli.shell import completion, interactive
    from qss_client.cli.stores import describe, listing, watch
    from qss_client.cli.top import command as top

    readers = (queries, timed, writers, listing, describe, watch, top)
    for part in (*readers, console, explain, load, completion):
        part.register(app)
    interactive.register(app, make_app)


def _register_missing(app: Any, part: str, module: str) -> None:
    extra = _KNOWN_COMMANDS.get(part, (part, ()))[0]
    for command in _commands_of(part):
        app.command(
            command,
            help=f"Not installed: pip install 'queryable-state[{extra}]'.",
            context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
        )(_missing(command, extra, module))


def _commands_of(part: str) -> tuple[str, ...]:
    return _KNOWN_COMMANDS.get(part, (part, ()))[1]


def _missing(command: str, extra: str, module: str) -> Callable[[], None]:
    def tell() -> None:
        raise MissingExtraError(command, module, extra)

    return tell
