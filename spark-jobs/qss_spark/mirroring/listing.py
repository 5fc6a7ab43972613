"""Lists the state of a checkpoint for a person: operators, parts, columns and rows."""

from collections.abc import Collection
from pathlib import Path
from typing import Any

import typer

from qss_client.cli.printing import Output, print_rows
from qss_spark.mirroring.rows.opaque_buffers import HINT, opaque_names
from qss_spark.mirroring.rows.time_to_live import unwrapped_fields
from qss_spark.state.errors import CheckpointError
from qss_spark.state.inventory import Inventory, Item
from qss_spark.state.tables import Shape
from qss_spark.state.types import Field, text_of, unique_names

_COLUMNS = ["operator", "name", "part", "key", "value", "opaque", "rows", "reason"]


def list_states(directory: Path, output: Output) -> bool:
    """Prints the state of a checkpoint, or of each checkpoint that a directory has.

    Returns whether all can be read. Raises CheckpointError for a directory that has none.
    """
    inside = checkpoints_in(directory)
    if not inside:
        return list_state(directory, output)
    is_whole = True
    for one in inside:
        if output is Output.TABLE:
            typer.echo(f"{one}:")
        try:
            is_whole &= list_state(one, output)
        except CheckpointError as error:
            typer.echo(f"{one}: {error.message}", err=True)
            is_whole = False
        if output is Output.TABLE:
            typer.echo()
    return is_whole


def checkpoints_in(directory: Path) -> list[Path]:
    """The checkpoints that a directory has, in order; none where it is one itself."""
    return [] if _is_checkpoint(directory) else sorted(filter(_is_checkpoint, _in(directory)))


def _is_checkpoint(directory: Path) -> bool:
    return all((directory / name).is_dir() for name in ("commits", "offsets"))


def _in(directory: Path) -> list[Path]:
    try:
        return list(directory.iterdir())
    except OSError:
        return []


def list_state(checkpoint: Path, output: Output) -> bool:
    """Prints the parts of the state; returns whether all can be read. Raises CheckpointError."""
    found = Inventory(checkpoint)
    batch, documents = found.batch, documents_of(found)
    if output is Output.TABLE:
        provider = "RocksDB" if batch.is_rocksdb else "HDFS-backed"
        partitions = f"{batch.partitions} partitions"
        typer.echo(f"batch {batch.number}, {provider} state in {partitions}, {batch.codec}\n")
    if not documents and output is Output.TABLE:
        typer.echo("the query keeps no state")
        return True
    print_rows(documents, output, _COLUMNS)
    if output is Output.TABLE and any("opaque" in one for one in documents):
        typer.echo(f"\nno store has the columns of OPAQUE. {HINT}")
    return not any("reason" in one for one in documents)


def documents_of(found: Inventory) -> list[dict[str, Any]]:
    """A document for each part of a state, whose rows are read and counted."""
    return [_document(found.counted(one)) for one in found.items]


def _document(item: Item) -> dict[str, Any]:
    document: dict[str, Any] = {"operator": item.operator, "name": item.name}
    if item.part:
        document["part"] = item.part
    if item.place is not None:
        of_value, opaque = item.place.schema.value, opaque_names(item.place)
        value = _columns(unwrapped_fields(of_value) if item.place.has_expiry else of_value, opaque)
        is_list = item.place.shape is Shape.LIST
        document["key"] = _columns(item.place.schema.key)
        document["value"] = f"list of ({value})" if is_list else value
        if opaque:
            document["opaque"] = ", ".join(opaque)
    document["rows"] = item.rows
    return document if item.reason is None else {**document, "reason": item.reason}


def _columns(fields: tuple[Field, ...], without: Collection[str] = ()) -> str:
    """The columns as Spark's SQL writes them; repeated names are numbered."""
    named = zip(unique_names(fields), fields, strict=True)
    return ", ".join(f"{name} {text_of(one.type)}" for name, one in named if name not in without)
