"""What Spark's part adds to the command `qss`."""

from pathlib import Path
from typing import Annotated

import typer

from qss_spark.demo.processes import ProgramError
from qss_spark.demo.run import run_demo
from qss_spark.flights import FlightsNotFoundError
from qss_spark.java import JavaNotFoundError


def register(app: typer.Typer) -> None:
    """Adds `qss demo`."""
    app.command()(demo)


def demo(
    state_dir: Annotated[Path, typer.Option(help="where the demo keeps its state")] = Path(
        ".qss/demo"
    ),
) -> None:
    """Stream real flights into a local cluster, ask it meanwhile, and compare every key."""
    try:
        code = run_demo(state_dir)
    except (ProgramError, FlightsNotFoundError, JavaNotFoundError) as error:
        typer.echo(f"error: {error}", err=True)
        code = 1
    raise typer.Exit(code)
