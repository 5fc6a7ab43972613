"""Completes the names of stores, types of queries and error codes."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from qss_client.addresses import STATE_DIR, local_stores
from qss_core.codes.catalogue import EXPLANATIONS
from qss_core.errors import StoreError
from qss_core.queries.types import QUERY_TYPES

_ANSWER_S = 1.0
_STORES_MAX = 500


def store_names(context: typer.Context, incomplete: str) -> list[str]:
    """The stores that begin with a text: of --url, of kubectl's namespace, or of this machine."""
    try:
        return _beginning(incomplete, _stores(context.params))
    except (StoreError, OSError):
        return []


OneOrAll = Annotated[
    str | None,
    typer.Argument(
        help="One store, in more words.", show_default=False, autocompletion=store_names
    ),
]


def query_types(incomplete: str) -> list[str]:
    return _beginning(incomplete, QUERY_TYPES)


def codes(incomplete: str) -> list[str]:
    return _beginning(incomplete, EXPLANATIONS)


def _stores(options: dict[str, Any]) -> Iterable[str]:
    """The stores by the options that stand before the name."""
    if "kubeconfig" in options:
        return _stores_by_kubectl(options)
    url = options.get("url") or os.environ.get("QSS_URL")
    if not url:
        given = options.get("state_dir") or os.environ.get("QSS_STATE_DIR") or STATE_DIR
        return local_stores(Path(given))
    return _stores_at(url, options)


def _stores_at(url: str, options: dict[str, Any]) -> Iterable[str]:
    from qss_client.addresses import checked_urls
    from qss_client.http.sync_http import SyncHttp
    from qss_core.wire.discovery import Stores

    files = {name: options.get(name) for name in ("token_file", "ca_file")}
    http = SyncHttp(**files)
    try:
        return [
            one.name
            for base in checked_urls(url)
            for one in http.get(f"{base}/state/stores", Stores, _ANSWER_S).stores
        ]
    finally:
        http.close()


def _stores_by_kubectl(options: dict[str, Any]) -> Iterable[str]:
    from qss_client.kube.kubectl import current_namespace, read_resources

    place = options.get("context"), options.get("kubeconfig")
    namespace = options.get("namespace") or current_namespace(*place)
    return [one["metadata"]["name"] for one in read_resources(namespace, *place)]


def _beginning(text: str, names: Iterable[str]) -> list[str]:
    return [name for name in dict.fromkeys(names) if name.startswith(text)][:_STORES_MAX]
