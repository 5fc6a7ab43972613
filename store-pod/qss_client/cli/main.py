"""The command `qss`: it finds its commands by entry points and tells errors in one way.

Exit codes: 0 done, 1 failure, 2 wrong usage or bad input, 3 not found, 4 not available now (try
again later), 130 interrupted.
"""

import codecs
import io
import json
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import entry_points, version
from typing import Annotated, Any

from qss_client.cli.shell.tab import VARIABLE, prepare_completion, words_to_complete
from qss_core.errors import Retry, StoreError
from qss_core.text import escaped

_GROUP = "qss.commands"
_BAD_INPUT = frozenset({400, 413, 422})
# The commands of each part, and the extra that the part needs, for parts that are not installed.
_KNOWN_COMMANDS = {
    "cluster": (
        "operator",
        ("up", "down", "status", "scale", "standbys", "apply", "move", "restart", "kill", "freeze"),
    ),
    "mirror": ("mirror", ("mirror",)),
    "spark": ("spark", ("demo",)),
}


class MissingExtraError(StoreError):
    """The part of the project that has the command is not installed."""

    code = "MISSING_EXTRA"


def exit_code_of(error: StoreError) -> int:
    """The exit code of the command for an error."""
    if error.http_status in _BAD_INPUT:
        return 2
    if error.http_status == 404:
        return 3
    return 1 if error.retry is Retry.NEVER else 4


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs `qss`, by default with the arguments of this process; ends the process."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    words = words_to_complete()
    # The last word may be the beginning of a command.
    wanted = given[:1] if words is None else words[:1]
    run_app("qss", lambda: make_app(wanted), given)


def run_app(name: str, make: Callable[[], Any], given: Sequence[str]) -> None:
    """Runs the typer app of a program with these arguments, tells its error, ends the process."""
    write_what_cannot_be_shown_as_escapes(sys.stdout, sys.stderr)
    try:
        import typer  # noqa: F401
    except ModuleNotFoundError:
        _fail(f"MISSING_EXTRA: {name} needs: pip install 'queryable-state[cli]'", 1)
    if words_to_complete() is not None:
        prepare_completion()
    try:
        make()(list(given), prog_name=name, complete_var=VARIABLE)
    except StoreError as error:
        for line in error.message.splitlines() or [""]:
            sys.stderr.write(f"error: {error.code}: {escaped(line)}\n")
        raise SystemExit(exit_code_of(error)) from None
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    except BrokenPipeError:
        # The reader of the pipe has closed it.
        sys.stderr.close()
        raise SystemExit(1) from None
    except OSError as error:
        _fail(str(error), 1)  # A file or the output cannot be written.


def write_what_cannot_be_shown_as_escapes(*outputs: Any) -> None:
    """Writes characters that the locale lacks as JSON escapes, so that JSON stays valid."""
    codecs.register_error("qss-escape", _escape)
    for output in outputs:
        if isinstance(output, io.TextIOWrapper):
            output.reconfigure(errors="qss-escape")


def _escape(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError), "only outputs have this handler"
    return json.dumps(error.object[error.start : error.end])[1:-1], error.end


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


def empty_app(name: str, told: str) -> Any:
    """A typer app with the help `told`, the option --version and no command."""
    import typer

    from qss_client.cli.advice import AdvisingGroup

    app = typer.Typer(
        name=name,
        cls=AdvisingGroup,
        help=told,
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )

    def tell_version(asked: bool) -> None:  # noqa: FBT001 typer's.
        if asked:
            typer.echo(f"{name} {version('queryable-state')}")
            raise typer.Exit

    @app.callback()
    def only_version(
        _: Annotated[  # noqa: FBT002 an option of a command.
            bool,
            typer.Option(
                "--version", callback=tell_version, is_eager=True, help="tell it, and end"
            ),
        ] = False,
    ) -> None:
        """Makes the program a group of commands even if it has only one."""

    return app


def register_own(app: Any) -> None:
    """Adds the commands of the client, which need no other part."""
    from qss_client.cli import count, queries, timed, writers
    from qss_client.cli.console import command as console
    from qss_client.cli.explain import command as explain
    from qss_client.cli.load import command as load
    from qss_client.cli.shell import completion, interactive
    from qss_client.cli.stores import describe, listing, watch
    from qss_client.cli.top import command as top

    readers = (queries, timed, count, writers, listing, describe, watch, top)
    for part in (*readers, console, explain, load, completion, interactive):
        part.register(app)


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
        raise MissingExtraError(
            f"`qss {command}` needs the module {module}: pip install 'queryable-state[{extra}]'"
        )

    return tell


def _fail(message: str, code: int) -> None:
    sys.stderr.write(f"error: {escaped(message)}\n")
    raise SystemExit(code)
