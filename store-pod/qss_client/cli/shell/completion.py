"""The command `qss completion`, which prints a script for a shell."""

from enum import StrEnum
from typing import Annotated, Any

import typer

from qss_client.cli.shell.tab import VARIABLE


class Shell(StrEnum):
    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def register(app: typer.Typer) -> None:
    app.command()(completion)


def completion(
    shell: Annotated[Shell, typer.Argument(help="bash, zsh or fish")],
) -> None:
    """Print a script that completes commands and names of stores: source <(qss completion bash)."""
    from typer import completion as scripts

    make: Any = scripts.get_completion_script  # type: ignore[attr-defined]
    typer.echo(make(prog_name="qss", complete_var=VARIABLE, shell=shell.value))
