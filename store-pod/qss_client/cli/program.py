"""Runs a program of the command line: tells its errors in one way, and ends with its exit code.

Exit codes: 0 done, 1 failure, 2 wrong usage or bad input, 3 not found, 4 not available now (try
again later), 130 interrupted.
"""

import codecs
import io
import json
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import version
from typing import Annotated, Any

from qss_client.cli.shell.tab import VARIABLE, prepare_completion, words_to_complete
from qss_core.errors import Retry, StoreError
from qss_core.text import escaped

_BAD_INPUT = frozenset({400, 413, 422})


class MissingExtraError(StoreError):
    """The module that a command needs is not installed."""

    code = "MISSING_EXTRA"

    def __init__(self, command: str, module: str | None, extras: str) -> None:
        """`extras` are those of pip that have the module, as "store,cli"."""
        super().__init__(
            f"`qss {command}` needs the module {module}: pip install 'queryable-state[{extras}]'"
        )


def exit_code_of(error: StoreError) -> int:
    """The exit code of the command for an error."""
    if error.http_status in _BAD_INPUT:
        return 2
    if error.http_status == 404:
        return 3
    return 1 if error.retry is Retry.NEVER else 4


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


def _fail(message: str, code: int) -> None:
    sys.stderr.write(f"error: {escaped(message)}\n")
    raise SystemExit(code)
