"""The command `kubectl qss report`, which writes an archive about a store."""

import io
import os
import tarfile
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from qss_client.cli.option_groups import Reaching, reaching
from qss_client.cli.options import Name
from qss_client.cli.printing import without_csv
from qss_client.clock import SystemClock
from qss_client.kube.kubectl import KubernetesPlace
from qss_core.errors import MalformedRequestError
from qss_operator.commands.report.contents import Part, Report

_TAIL_MAX = 100_000


def register(app: typer.Typer) -> None:
    """Add the command to `kubectl qss`."""
    app.command()(report)


@reaching
def report(
    store: Name,
    file: Annotated[
        Path | None,
        typer.Option(help="Where to write it; default: STORE-report.tar.gz.", show_default=False),
    ] = None,
    tail: Annotated[
        int, typer.Option(min=1, max=_TAIL_MAX, help="The last lines of each log.")
    ] = 10_000,
    *,
    reached: Reaching,
) -> None:
    """Write resource, events, logs and metrics of a store into a file, for whoever helps.

    The file has no keys, values and tokens of the store. A part that kubectl may not read is named.
    """
    without_csv(reached.output)
    place = reached.place
    asked = KubernetesPlace.parse(f"{place.namespace}/{store}", place.context, place.kubeconfig)
    path = file or Path(f"{store}-report.tar.gz")
    made = Report(asked, tail, lambda name: typer.echo(f"reading {name}", err=True))
    count = _write(path, f"{store}-report", made.parts())
    typer.echo(f"{path}: {count} files")
    for failure in made.failures:
        typer.echo(f"not in the report: {failure}", err=True)


def _write(path: Path, folder: str, parts: Iterable[Part]) -> int:
    """Writes the archive part by part, and returns their number; its owner alone may read it.

    Nothing stays where a part fails. Raises MalformedRequestError for a file that cannot be made.
    """
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        raise MalformedRequestError(
            f"{path} cannot be made: {error.strerror}: give another path by --file"
        ) from error
    try:
        with (
            os.fdopen(descriptor, "wb") as file,
            tarfile.open(fileobj=file, mode="w:gz") as archive,
        ):
            count = 0
            for name, data in parts:
                entry = tarfile.TarInfo(f"{folder}/{name}")
                entry.size, entry.mtime = len(data), SystemClock().wall_ms() // 1000
                archive.addfile(entry, io.BytesIO(data))
                count += 1
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    return count
