"""The command `qss stores`, which lists the stores that can be reached."""

import os
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import typer

from qss_client.addresses import checked_urls, local_stores
from qss_client.cli.option_groups import Reaching, reaching
from qss_client.cli.options import Place, connection_at, limits_of, open_store
from qss_client.cli.printing import print_rows
from qss_core.errors import MalformedRequestError, StoreError
from qss_core.wire.discovery import Stores
from qss_core.wire.messages import StoreMetadata

_COLUMNS = ["name", "type", "format", "partitions", "pods", "state", "address"]
_ANSWER_S = 5.0


def register(app: typer.Typer) -> None:
    app.command()(stores)


@reaching
def stores(*, reached: Reaching) -> None:
    """List the stores of the local cluster, or of the pods that --url names."""
    place = reached.place
    if place.is_on_kubernetes:
        raise MalformedRequestError("the stores of a cluster are listed by `kubectl get qss -A`")
    limits_of(reached.timeout_s)
    timeout_s = min(reached.timeout_s, _ANSWER_S)
    given = place.url or os.environ.get("QSS_URL") or None
    found: Iterator[tuple[str, Place]]
    if given is None:
        found = ((name, place) for name in local_stores(place.state_dir))
    else:
        found = _stores_at(given, place, timeout_s)
    documents = [_document(name, at, timeout_s) for name, at in found]
    print_rows(documents, reached.output, _COLUMNS)
    if not documents:
        nothing = f"no store in {place.state_dir}: `qss up` starts stores"
        typer.echo(nothing if given is None else f"no store at {given}", err=True)


def _stores_at(given: str, place: Place, timeout_s: float) -> Iterator[tuple[str, Place]]:
    """The stores of the pods at these URLs, each once with its URL."""
    seen: set[str] = set()
    for url in checked_urls(given):
        at = replace(place, url=url)
        http = connection_at((url,), "", at).http()
        try:
            names = [one.name for one in http.get(f"{url}/state/stores", Stores, timeout_s).stores]
        finally:
            http.close()
        yield from ((name, at) for name in names if name not in seen)
        seen.update(names)


def _document(name: str, place: Place, timeout_s: float) -> dict[str, Any]:
    """A store as `qss stores` shows it; its state is the code of the error where it has one."""
    try:
        with open_store(name, place, timeout_s) as client:
            metadata = client.metadata()
    except StoreError as error:
        return {"name": name, "state": error.code}
    return {"name": name, **_told(metadata)}


def _told(metadata: StoreMetadata) -> dict[str, Any]:
    definition = metadata.definition
    return {
        "type": definition.type,
        "format": definition.format,
        "partitions": definition.partitions,
        "pods": len(metadata.instances),
        "state": "answers",
        "address": next((one.query for one in metadata.instances), None),
    }
