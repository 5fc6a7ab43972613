"""The command `qss describe`, which prints the definition and the health of a store."""

from typing import Annotated, Any

import typer

from qss_client.cli.option_groups import Asking, asking
from qss_client.cli.options import Name
from qss_client.cli.printing import Output, print_document, print_rows, times_shown, without_csv
from qss_client.cli.stores.description import Description, describe_store
from qss_client.cli.tables import shown_bytes
from qss_client.cli.writers import document_of
from qss_core.model import StoreDefinition

_REPLICA_COLUMNS = [
    *("partition", "role", "pod", "epoch"),
    *("state", "sequence", "lagOffsets", "lagSeconds"),
]
_WRITER_COLUMNS = ["name", "state", "lastBatch", "openedAt"]
_LABEL_COLUMNS = 12


def register(app: typer.Typer) -> None:
    app.command()(describe)


@asking
def describe(
    store: Name,
    exact: Annotated[  # noqa: FBT002 an option of a command.
        bool, typer.Option("--exact", help="count every row; default: RocksDB's estimate")
    ] = False,
    *,
    asked: Asking,
) -> None:
    """Describe a store: type, serdes, format, partitions, rows, bytes, lags and writers."""
    reached = asked.reached
    without_csv(asked.output)
    found = describe_store(store, reached.place, reached.timeout_s, asked.options, exact=exact)
    if asked.output is Output.TABLE:
        _print(found)
    else:
        print_document(_document(found, asked.output), asked.output)


def _document(found: Description, output: Output) -> dict[str, Any]:
    times = times_shown(None, output)
    return {
        **_facts(found.definition),
        "rows": found.rows,
        "rowsAreExact": found.is_exact,
        "bytes": found.data_bytes,
        "replicas": list(found.replicas),
        "writers": [document_of(one, times) for one in found.writers],
        "notes": list(found.notes),
    }


def _facts(definition: StoreDefinition) -> dict[str, Any]:
    """The members of the definition that the store has."""
    facts = {
        "name": definition.name,
        "type": definition.type,
        "customType": definition.custom_name,
        "format": definition.format,
        "keySerde": definition.key_serde,
        "valueSerde": definition.value_serde,
        "partitions": definition.partitions,
        "partitioner": definition.partitioner,
        "isolation": definition.isolation,
        "windowSizeMs": definition.window_size_ms,
        "sessionGapMs": definition.session_gap_ms,
        "retentionMs": definition.retention_ms,
        "historyRetentionMs": definition.history_retention_ms,
    }
    return {name: value for name, value in facts.items() if value is not None}


def _print(found: Description) -> None:
    facts = _facts(found.definition)
    width = max(_LABEL_COLUMNS, *map(len, facts)) + 2
    rows = "not known"
    if found.rows is not None:
        estimate = f"about {found.rows} (an estimate; --exact counts every row)"
        rows = str(found.rows) if found.is_exact else estimate
    size = "not known (pods measure them every ten seconds)"
    if found.data_bytes is not None:
        size = f"{shown_bytes(found.data_bytes)} (databases and changelogs of all pods)"
    for name, value in {**facts, "rows": rows, "bytes": size}.items():
        typer.echo(f"{name + ':':{width}}{value}")
    typer.echo("\nreplicas:")
    print_rows(found.replicas, Output.TABLE, _REPLICA_COLUMNS)
    if found.writers:
        typer.echo("\nwriters:")
        times = times_shown(None, Output.TABLE)
        documents = [document_of(one, times) for one in found.writers]
        print_rows(documents, Output.TABLE, _WRITER_COLUMNS)
    for note in found.notes:
        typer.echo(note, err=True)
