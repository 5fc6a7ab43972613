"""Pods that check tokens, and accounts with one right each."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from qss_client.http.sync_http import SyncHttp
from qss_testing.fakes.reviewer import Reviewer, make_token
from qss_testing.pods.pod_process import PodCluster, PodProcess

NAMESPACE = "shop"
STORE = "words"


def account(name: str, namespace: str = NAMESPACE) -> str:
    """A service account's full name."""
    return f"system:serviceaccount:{namespace}:{name}"


READER, WRITER, BOTH, STRANGER, BIRDS = map(account, ("reader", "writer", "both", "no", "birds"))
PODS = account("qss-words")
OPERATOR = account("operator", "qss-system")
_QUERY = ("query", "get", NAMESPACE, STORE)
_WRITE = ("write", "update", NAMESPACE, STORE)


def rights() -> dict[str, set[tuple[str, str, str, str]]]:
    """The rights of all accounts."""
    return {
        READER: {_QUERY},
        WRITER: {_WRITE},
        BOTH: {_QUERY, _WRITE},
        STRANGER: set(),
        BIRDS: {("query", "get", NAMESPACE, "birds"), ("query", "get", "other", STORE)},
        PODS: set(),
        OPERATOR: set(),
    }


@contextmanager
def guarded(
    directory: Path, reviewer: Reviewer, arguments: tuple[str, ...] = (), **options: Any
) -> Iterator[PodCluster]:
    """Runs pods that use this API server; `options` are PodCluster's."""
    peer_token = directory / "peer-token"
    peer_token.write_text(make_token(PODS))
    flags = (
        *("--authentication", "serviceaccount", "--namespace", NAMESPACE),
        *("--peer-service-account", "qss-words", "--peer-token-file", str(peer_token)),
        *("--operator-service-account", "qss-system/operator"),
        *reviewer.flags(directory / "kubernetes"),
    )
    operator = {"token": make_token(OPERATOR), **options.pop("operator", {})}
    with PodCluster(
        directory, store=STORE, arguments=(*flags, *arguments), operator=operator, **options
    ) as cluster:
        yield cluster


def get_json(url: str, **http: Any) -> dict[str, Any]:
    """A JSON answer; raises the error of a refusal."""
    client = SyncHttp(**http)
    try:
        found: dict[str, Any] = json.loads(client.request("GET", url).body)
        return found
    finally:
        client.close()


def metric(pod: PodProcess, line: str) -> float:
    """The value of a sample; 0 if it is absent."""
    client = SyncHttp()
    try:
        text = client.request("GET", f"{pod.ops}/metrics").body.decode()
    finally:
        client.close()
    found = [one for one in text.splitlines() if one.startswith(line)]
    return float(found[0].rpartition(" ")[2]) if found else 0.0
