"""Formats the published status for people and programs."""

import json
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from qss_client.cli.tables import table_lines
from qss_core.model import StoreName
from qss_operator.errors import StateDirectoryError
from qss_operator.local.directory.state import StateDirectory
from qss_operator.local.pods import known_store
from qss_operator.local.status.lags import lags_told
from qss_operator.local.status.present import present_status
from qss_operator.local.status.summary import summary_of
from qss_operator.planning.annotations import ACTIVES_ANNOTATION
from qss_operator.planning.model import ConditionType, StoreStatus
from qss_operator.planning.status import attention, is_old
from qss_operator.resources.status_document import encode_status

_HEADINGS = ("NAME", "READY", "ASSIGNED", "STATUS", "FORMAT", "ENDPOINT")


class Output(StrEnum):
    """The format of a shown status."""

    TABLE = "table"
    JSON = "json"
    NDJSON = "ndjson"


def show_statuses(state: StateDirectory, store: str | None, output: Output) -> str:
    """The text of `qss status`; raises StoreNotFoundError for an unknown store.

    A store whose files are damaged hides no other one: its error stands in its place.
    """
    if store is not None:
        return _one_shown(state, known_store(state, store), output)
    statuses: dict[StoreName, StoreStatus] = {}
    documents: list[dict[str, Any]] = []
    damaged: list[str] = []
    for name in state.stores():
        try:
            status = present_status(state, name)
            documents.append(_resource(state, name, status))
            statuses[name] = status
        except StateDirectoryError as error:
            documents.append({"metadata": {"name": name}, "error": error.message})
            damaged.append(f"{name}: {error.message}")
    if output is Output.TABLE:
        shown = [*([statuses_table(statuses)] if statuses else ()), *damaged]
        return "\n".join(shown) or f"no stores in {state.path}"
    if output is Output.JSON:
        return json.dumps({"items": documents}, indent=2)
    return "\n".join(map(json.dumps, documents))


def _one_shown(state: StateDirectory, name: StoreName, output: Output) -> str:
    status = present_status(state, name)
    if output is not Output.TABLE:
        indent = 2 if output is Output.JSON else None
        return json.dumps(_resource(state, name, status), indent=indent)
    is_now = name in state.running() and not is_old(status)
    pods = status.endpoints.pods if status.endpoints and is_now else ()
    told = [summary_of(status), *lags_told(name, pods), *_asked_actives(state, name)]
    return "\n\n".join([statuses_table({name: status}), "\n".join(told)])


def _asked_actives(state: StateDirectory, name: StoreName) -> list[str]:
    """The actives that `qss move` asked for, as partition=pod; an empty list if there are none."""
    metadata = (state.read_resource(name) or {}).get("metadata", {})
    asked = (metadata.get("annotations") or {}).get(ACTIVES_ANNOTATION)
    return [f"asked by `qss move`, as partition=pod: {asked}"] if asked else []


def statuses_table(statuses: Mapping[StoreName, StoreStatus]) -> str:
    rows = []
    for name, status in statuses.items():
        ready, degraded = status.condition(ConditionType.READY), attention(status)
        reasons = [one.reason for one in (ready, degraded) if one is not None]
        endpoint = (status.endpoints.query if status.endpoints else None) or ""
        rows.append(
            (
                name,
                status.ready or "",
                status.assigned or "",
                ", ".join(reasons),
                _format_of(status),
                endpoint,
            )
        )
    return "\n".join(table_lines(_HEADINGS, rows))


def _format_of(status: StoreStatus) -> str:
    """The format, and during a migration the share of rows that have it."""
    shown = status.format or ""
    return f"{shown} ({status.migrated})" if status.migrated else shown


def _resource(state: StateDirectory, name: StoreName, status: StoreStatus) -> dict[str, Any]:
    return (state.read_resource(name) or {}) | {"status": encode_status(status)}
