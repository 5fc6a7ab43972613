"""The options of commands that query a store, and how they find the store."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from qss_client.addresses import find_urls
from qss_client.arguments import check_seconds
from qss_client.cli.printing import ROWS_SHOWN, Output
from qss_client.cli.shell.names import store_names
from qss_client.http.retries import RetryLimits
from qss_client.kube.connection import (
    INTERNAL_PORT,
    QUERY_PORT,
    ConnectionOptions,
    CredentialOptions,
    connection_to,
)
from qss_client.reads.requests import ReadOptions
from qss_client.store import Store
from qss_core.errors import MalformedRequestError
from qss_core.model import Isolation
from qss_core.positions import parse_bound
from qss_core.serdes.json import json_or_text
from qss_core.serdes.registry import Serde, serde_of
from qss_core.times import Times

_JSON_STARTS = ("{", "[", '"')

Name = Annotated[str, typer.Argument(help="the store", autocompletion=store_names)]
Url = Annotated[
    str | None, typer.Option(help="any pod of the store, or several, with commas; or set QSS_URL")
]
TokenPath = Annotated[
    Path | None,
    typer.Option("--token-file", help="a bearer token; or set QSS_TOKEN_FILE or QSS_TOKEN"),
]
CaPath = Annotated[
    Path | None,
    typer.Option("--ca-file", help="the authority of the store's certificate; or QSS_CA_FILE"),
]
Kube = Annotated[
    bool,
    typer.Option("--kube", help="the store is NAMESPACE/STORE on Kubernetes, reached by kubectl"),
]
Context = Annotated[str | None, typer.Option(help="a context of the kubeconfig, with --kube")]
Namespace = Annotated[
    str | None,
    typer.Option("--namespace", "-n", help="the store's namespace; default: that of the context"),
]
KubeContext = Annotated[str | None, typer.Option("--context", help="a context of the kubeconfig")]
Kubeconfig = Annotated[
    str | None, typer.Option("--kubeconfig", help="a kubeconfig; default: that of kubectl")
]
ServiceAccount = Annotated[
    str, typer.Option(help="on Kubernetes the account of the token, in the store's namespace")
]


def state_directory(given: str | Path) -> Path:
    """The directory of a local cluster; raises BadParameter for an empty text, which is no path."""
    if not str(given):
        raise typer.BadParameter("a directory is needed; without the option it is .qss")
    return Path(given)


StateDir = Annotated[
    Path,
    typer.Option(
        envvar="QSS_STATE_DIR",
        parser=state_directory,
        metavar="PATH",
        help="the local cluster to look in when no URL is given",
    ),
]
Format = Annotated[Output, typer.Option("--output", "-o", help="how to print")]
RequireActive = Annotated[bool, typer.Option("--require-active", help="only the active may answer")]
ExecutionInfo = Annotated[bool, typer.Option("--execution-info", help="show how it was answered")]
Seen = Annotated[
    Isolation | None,
    typer.Option("--isolation", help="which rows are visible; default: the store's"),
]
Bound = Annotated[
    str | None, typer.Option(help="answers at least as new as this: a token, or JSON")
]
Partitions = Annotated[str | None, typer.Option(help="only these partitions, as 0,3")]
Partition = Annotated[
    int | None,
    typer.Option(help="the key's partition, where the writer chose it (partitioner Explicit)"),
]
Staleness = Annotated[float | None, typer.Option(help="seconds that an answering standby may lag")]
ShownTimes = Annotated[
    Times | None, typer.Option("--times", help="how times are printed; a table has rfc3339")
]
ShownColumns = Annotated[
    str | None,
    typer.Option(
        "--columns", help="members of JSON values as columns, as flights,distance or place.city"
    ),
]
Limit = Annotated[int | None, typer.Option(min=1, help="the most rows; default: 1000")]
Timeout = Annotated[float, typer.Option(help="seconds that the store may take")]


@dataclass(frozen=True, slots=True)
class Place:
    """The store's address and the credentials for it; the environment fills in absent ones."""

    url: str | None
    state_dir: Path
    token_file: Path | None
    ca_file: Path | None
    is_on_kubernetes: bool
    context: str | None
    service_account: str
    kubeconfig: str | None = None
    namespace: str | None = None  # Of the store on Kubernetes, whose name comes without it then.


def limits_of(timeout_s: float) -> RetryLimits:
    """The limits of a command. Raises MalformedRequestError for a text that is no time."""
    check_seconds("timeout", timeout_s, least=0)
    return RetryLimits(deadline_s=timeout_s)


@contextmanager
def open_store(store: str, place: Place, timeout_s: float) -> Iterator[Store]:
    """A client of the store; keys and values are the store's JSON, for printing unchanged."""
    limits = limits_of(timeout_s)
    with connection_of(store, place) as connection, connection.client(limits, raw=True) as client:
        yield client


@contextmanager
def connection_of(store: str, place: Place, *, writes: bool = False) -> Iterator[ConnectionOptions]:
    """The connection to the store, valid inside the block.

    writes: on Kubernetes the internal port, which writers use.
    """
    if place.is_on_kubernetes:
        if place.url:
            raise MalformedRequestError("--kube finds the store by its name: leave out --url")
        port = INTERNAL_PORT if writes else QUERY_PORT
        shown = _credentials(place)
        name = f"{place.namespace}/{store}" if place.namespace else store
        account = place.service_account
        with connection_to(
            name, place.context, account, shown, port, place.kubeconfig
        ) as connection:
            yield connection
        return
    urls = find_urls(store, place.url, place.state_dir, os.environ)
    yield connection_at(urls, store, place)


def connection_at(urls: tuple[str, ...], store: str, place: Place) -> ConnectionOptions:
    """The connection to a store at these URLs, with the credentials of the place."""
    return ConnectionOptions(urls=urls, store=store, shown=_credentials(place))


def _credentials(place: Place) -> CredentialOptions:
    environment = os.environ
    token_file = place.token_file or environment.get("QSS_TOKEN_FILE") or None
    token = None if token_file else environment.get("QSS_TOKEN") or None
    ca_file = place.ca_file or environment.get("QSS_CA_FILE") or None
    return CredentialOptions(token=token, token_file=token_file, ca_file=ca_file)


def key_serde(client: Store) -> Serde:
    """The serde of the store's keys."""
    return serde_of(client.metadata().definition.key_serde)


def key_of(serde: Serde, text: str) -> Any:
    """A key from a command line; a JSON text needs no quotes where it is no other JSON.

    Raises MalformedRequestError if it is not UTF-8, or begins as JSON and is none.
    """
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise MalformedRequestError(f"a key is written in UTF-8, not {text!r}") from error
    if serde.name == "json" and not text.lstrip().startswith(_JSON_STARTS):
        return json_or_text(text)
    return serde.to_json(serde.decode(serde.key_from_text(text)))


def numbers(text: str | None) -> list[int] | None:
    """Partition numbers from a command line."""
    if text is None:
        return None
    try:
        return [int(number) for number in text.split(",")]
    except ValueError as error:
        raise MalformedRequestError(f"partitions are numbers like 0,3, not {text!r}") from error


def rows_to_ask(limit: int | None) -> int:
    """The number of rows to ask for; without a limit one more than is printed, to detect it."""
    return ROWS_SHOWN + 1 if limit is None else limit


def read_options(
    position_bound: str | None,
    timeout_s: float,
    isolation: Isolation | None,
    *,
    require_active: bool = False,
    max_staleness_s: float | None = None,
) -> ReadOptions:
    bound = None
    if position_bound is not None:
        is_json = position_bound.lstrip().startswith("{")
        bound = parse_bound(_json_of(position_bound) if is_json else position_bound)
    return ReadOptions(
        position_bound=bound,
        require_active=require_active,
        isolation=isolation,
        timeout_s=timeout_s,
        max_staleness_s=max_staleness_s,
    )


def _json_of(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise MalformedRequestError(f"no JSON: {text[:80]!r}: {error}") from error
