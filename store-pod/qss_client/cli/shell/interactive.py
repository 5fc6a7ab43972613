"""The command `qss shell`: commands of `qss` one after the other, with completion and history."""

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from qss_client.cli.option_groups import Reaching, reaching
from qss_client.cli.printing import Output
from qss_client.cli.program import MissingExtraError, exit_code_of, run_app
from qss_client.cli.shell.lines import ENDS, Lines
from qss_client.cli.shell.names import store_names
from qss_core.errors import MalformedRequestError

_BEGINNING = "Tab completes, `help` lists the commands, `exit` or Ctrl-D ends."


def register(app: typer.Typer, make_app: Callable[[], Any]) -> None:
    """Adds the command; `make_app` makes the app whose commands the shell runs."""

    @app.command()
    @reaching
    def shell(
        store: Annotated[
            str | None,
            typer.Argument(help="commands take this store: get KEY", autocompletion=store_names),
        ] = None,
        *,
        reached: Reaching,
    ) -> None:
        """Run commands one after the other, with completion and history: get KEY, scan, watch KEY.

        Where the input is no terminal, its lines are run as commands; the exit code is that of the
        first line that failed.
        """
        lines = Lines(typer.main.get_command(make_app()), store, options_of(reached))
        is_typed = sys.stdin.isatty()
        read = _prompts(lines, store) if is_typed else (line for line in sys.stdin)
        code = run_lines(
            read, lines, lambda arguments: run_app("qss", lambda: lines.command, arguments)
        )
        if not is_typed:  # A person has seen the error.
            raise typer.Exit(code)


def run_lines(read: Iterator[str], lines: Lines, run: Callable[[list[str]], None]) -> int:
    """Runs each line, until `exit` or the end of the input; an error ends its line only.

    Returns the exit code of the first line that failed, 0 where none did.
    """
    code = 0
    for line in read:
        if line.strip() in ENDS:
            break
        try:
            arguments = lines.arguments(line)
        except MalformedRequestError as error:
            typer.echo(f"error: {error.code}: {error.message}", err=True)
            code = code or exit_code_of(error)
            continue
        if arguments:
            ended = _code_of(run, arguments)
            code = code or ended
        sys.stdout.flush()
    return code


def _code_of(run: Callable[[list[str]], None], arguments: list[str]) -> int:
    """The exit code of a command, which has told its error."""
    try:
        run(arguments)
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else 0
    return 0


def options_of(reached: Reaching) -> list[str]:
    """The given options of the connection, for each command that has them."""
    place = reached.place
    given = {
        "--url": place.url,
        "--token-file": place.token_file,
        "--ca-file": place.ca_file,
        "--context": place.context,
        "--state-dir": place.state_dir,
        "--service-account": place.service_account,
        "--timeout": reached.timeout_s,
        "--output": None if reached.output is Output.TABLE else reached.output.value,
    }
    options = [f"{name}={value}" for name, value in given.items() if value is not None]
    return [*options, *(["--kube"] if place.is_on_kubernetes else [])]


def history_file() -> Path:
    """The file of the lines, which may have keys: its owner alone may read it."""
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    path = Path(base) / "qss" / "history"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(mode=0o600)
    return path


def _prompts(lines: Lines, store: str | None) -> Iterator[str]:
    """The lines that a person types; Ctrl-C drops a line."""
    try:
        from prompt_toolkit import PromptSession
        from prompt_toolkit.history import FileHistory

        from qss_client.cli.shell.line_completer import LineCompleter
    except ModuleNotFoundError as error:
        raise MissingExtraError("shell", error.name, "cli") from error
    session: PromptSession[str] = PromptSession(
        history=FileHistory(str(history_file())),
        completer=LineCompleter(lines),
        complete_while_typing=False,
        complete_in_thread=True,
    )
    typer.echo(_BEGINNING)
    while True:
        try:
            yield session.prompt(f"{store or 'qss'}> ")
        except KeyboardInterrupt:
            continue
        except EOFError:
            return
