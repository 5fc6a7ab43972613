"""The commands that the Spark part adds to `qss`."""

from pathlib import Path
from typing import Annotated

import typer

from qss_spark.demo.processes import ProgramError
from qss_spark.demo.run import run_demo
from qss_spark.demo.scenarios import SCENARIOS, Scenario
from qss_spark.flights import FlightsNotFoundError
from qss_spark.java import JavaNotFoundError

_NAMES = tuple(scenario.name for scenario in SCENARIOS)


def register(app: typer.Typer) -> None:
    app.command()(demo)


def demo(
    jobs: Annotated[
        str, typer.Option(help=f"which jobs, with commas between: {','.join(_NAMES)}")
    ] = ",".join(_NAMES),
    *,
    faults: Annotated[
        bool,
        typer.Option(
            help="while each job streams, kill a pod of its store, and later add one",
        ),
    ] = True,
    state_dir: Annotated[Path, typer.Option(help="where the demo keeps its state")] = Path(
        ".qss/demo"
    ),
) -> None:
    """Stream real flights into a local cluster, ask it meanwhile, and compare every row."""
    try:
        code = run_demo(state_dir, _scenarios(jobs), makes_faults=faults)
    except (ProgramError, FlightsNotFoundError, JavaNotFoundError) as error:
        typer.echo(f"error: {error}", err=True)
        code = 1
    raise typer.Exit(code)


def _scenarios(names: str) -> tuple[Scenario, ...]:
    chosen = [name.strip() for name in names.split(",") if name.strip()]
    if unknown := set(chosen) - set(_NAMES):
        raise ProgramError(f"there is no job {min(unknown)!r}: the jobs are {', '.join(_NAMES)}")
    if not chosen:
        raise ProgramError(f"no job was named: the jobs are {', '.join(_NAMES)}")
    return tuple(scenario for scenario in SCENARIOS if scenario.name in chosen)
