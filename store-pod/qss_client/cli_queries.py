"""`qss get`, `qss scan`, `qss query`: asks a store from a terminal."""

import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from qss_client.answers import PartitionResult, Row
from qss_client.on_kubernetes import store_on_kubernetes
from qss_client.requests import ReadOptions
from qss_client.routing import RetryLimits
from qss_client.store import Store
from qss_core.errors import KeyNotFoundError, MalformedRequestError, StoreNotFoundError
from qss_core.positions import parse_bound
from qss_core.serdes import Serde, serde_of

_SCAN_ROWS = 1000
_KEY_FIELDS = ("key", "lower", "upper", "prefix")


class Output(StrEnum):
    """How answers are printed."""

    TABLE = "table"
    JSON = "json"
    NDJSON = "ndjson"


Name = Annotated[str, typer.Argument(help="the store")]
Url = Annotated[str | None, typer.Option(help="any pod of the store; or set QSS_URL")]
TokenPath = Annotated[
    Path | None,
    typer.Option("--token-file", help="a bearer token; or set QSS_TOKEN_FILE or QSS_TOKEN"),
]
CaPath = Annotated[
    Path | None,
    typer.Option("--ca-file", help="who signed the store's certificate; or set QSS_CA_FILE"),
]
Kube = Annotated[
    bool,
    typer.Option("--kube", help="the store is NAMESPACE/STORE on Kubernetes, reached by kubectl"),
]
Context = Annotated[str | None, typer.Option(help="of the kubeconfig, with --kube")]
ServiceAccount = Annotated[
    str, typer.Option(help="whose token is asked for, in the store's namespace, with --kube")
]
StateDir = Annotated[Path, typer.Option(help="the local cluster to look in when no URL is given")]
Format = Annotated[Output, typer.Option("--output", "-o", help="how to print")]
RequireActive = Annotated[bool, typer.Option("--require-active", help="only the active may answer")]
ExecutionInfo = Annotated[bool, typer.Option("--execution-info", help="tell how it was answered")]
Bound = Annotated[
    str | None, typer.Option(help="answers at least as new as this: a token, or JSON")
]
Partitions = Annotated[str | None, typer.Option(help="only these, as 0,3")]
Timeout = Annotated[float, typer.Option(help="seconds that the store may take")]


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    app.command()(get)
    app.command()(scan)
    app.command()(query)


def get(
    store: Name,
    keys: Annotated[list[str], typer.Argument(help="one key or more")],
    url: Url = None,
    token_file: TokenPath = None,
    ca_file: CaPath = None,
    kube: Kube = False,  # noqa: FBT002 an option of a command.
    context: Context = None,
    service_account: ServiceAccount = "default",
    state_dir: StateDir = Path(".qss"),
    output: Format = Output.TABLE,
    require_active: RequireActive = False,  # noqa: FBT002 an option of a command.
    position_bound: Bound = None,
    timeout: Timeout = 10.0,
) -> None:
    """Look keys up; exit code 3 when one of them is not there."""
    options = _options(position_bound, timeout, require_active=require_active)
    with _open(
        store, Place(url, state_dir, token_file, ca_file, kube, context, service_account), timeout
    ) as client:
        serde = _key_serde(client)
        wanted = [_key(serde, text) for text in keys]
        if len(wanted) == 1:
            rows = [client.get(wanted[0], options)]
        else:
            rows = client.get_many(wanted, options)
    found = [row for row in rows if row is not None]
    if found or len(keys) > 1:
        _print_rows(found, output)
    if missing := [key for key, row in zip(keys, rows, strict=True) if row is None]:
        raise KeyNotFoundError(f"store {store} has no {', '.join(map(repr, missing))}")


def scan(
    store: Name,
    lower: Annotated[str | None, typer.Option("--from", help="the first key")] = None,
    upper: Annotated[str | None, typer.Option("--to", help="the last key")] = None,
    prefix: Annotated[str | None, typer.Option(help="only keys that begin with it")] = None,
    descending: Annotated[bool, typer.Option("--descending", help="from the last key on")] = False,  # noqa: FBT002
    limit: Annotated[int, typer.Option(min=1, help="so many rows")] = _SCAN_ROWS,
    partitions: Partitions = None,
    url: Url = None,
    token_file: TokenPath = None,
    ca_file: CaPath = None,
    kube: Kube = False,  # noqa: FBT002 an option of a command.
    context: Context = None,
    service_account: ServiceAccount = "default",
    state_dir: StateDir = Path(".qss"),
    output: Format = Output.TABLE,
    position_bound: Bound = None,
    timeout: Timeout = 10.0,
) -> None:
    """Print a range, a prefix, or everything: partition by partition, each in key order."""
    if prefix is not None and (lower is not None or upper is not None):
        raise MalformedRequestError("give either --prefix, or --from and --to")
    options = _options(position_bound, timeout)
    order = "DESCENDING" if descending else "ASCENDING"
    chosen = _numbers(partitions)
    with _open(
        store, Place(url, state_dir, token_file, ca_file, kube, context, service_account), timeout
    ) as client:
        serde = _key_serde(client)
        if prefix is not None:
            rows = client.prefix(
                _key(serde, prefix), order=order, limit=limit, partitions=chosen, options=options
            )
        else:
            rows = client.range(
                None if lower is None else _key(serde, lower),
                None if upper is None else _key(serde, upper),
                order=order,
                limit=limit,
                partitions=chosen,
                options=options,
            )
        _print_rows(rows, output)


def query(
    store: Name,
    type_: Annotated[str, typer.Argument(metavar="TYPE", help="KeyQuery, RangeQuery, ...")],
    fields: Annotated[list[str] | None, typer.Argument(help="its fields, as lower=a")] = None,
    partitions: Partitions = None,
    limit: Annotated[int | None, typer.Option(min=1, help="so many rows of a range")] = None,
    execution_info: ExecutionInfo = False,  # noqa: FBT002
    url: Url = None,
    token_file: TokenPath = None,
    ca_file: CaPath = None,
    kube: Kube = False,  # noqa: FBT002 an option of a command.
    context: Context = None,
    service_account: ServiceAccount = "default",
    state_dir: StateDir = Path(".qss"),
    output: Format = Output.TABLE,
    require_active: RequireActive = False,  # noqa: FBT002
    position_bound: Bound = None,
    timeout: Timeout = 10.0,
) -> None:
    """Send an IQv2 query; each partition answers for itself. Exit code 1 when one failed."""
    options = _options(position_bound, timeout, require_active=require_active)
    with _open(
        store, Place(url, state_dir, token_file, ca_file, kube, context, service_account), timeout
    ) as client:
        serde = _key_serde(client)
        result = client.query(
            type_,
            partitions=_numbers(partitions),
            options=options,
            execution_info=execution_info,
            limit=limit,
            **dict(_field(serde, text) for text in fields or []),
        )
    _print_results(list(result.partition_results.values()), output)
    if any(not one.is_success for one in result.partition_results.values()):
        raise typer.Exit(1)


# --- Finding the store


@dataclass(frozen=True, slots=True)
class Place:
    """Where the store is, and what it is shown and checked by; the environment fills gaps."""

    url: str | None
    state_dir: Path
    token_file: Path | None
    ca_file: Path | None
    is_on_kubernetes: bool
    context: str | None
    service_account: str


@contextmanager
def _open(store: str, place: Place, timeout_s: float) -> Iterator[Store]:
    environment = os.environ
    limits = RetryLimits(deadline_s=timeout_s)
    if place.is_on_kubernetes:
        with store_on_kubernetes(
            store,
            context=place.context,
            service_account=place.service_account,
            ca_file=place.ca_file or environment.get("QSS_CA_FILE") or None,
            limits=limits,
        ) as client:
            yield client
        return
    found = place.url or environment.get("QSS_URL") or _local_url(store, place.state_dir)
    token_file = place.token_file or environment.get("QSS_TOKEN_FILE") or None
    with Store(
        found,
        store,
        token=None if token_file else environment.get("QSS_TOKEN") or None,
        token_file=token_file,
        ca_file=place.ca_file or environment.get("QSS_CA_FILE") or None,
        limits=limits,
    ) as client:
        yield client


def _local_url(store: str, state_dir: Path) -> str:
    status = state_dir / store / "status.yaml"
    try:
        document = yaml.safe_load(status.read_text())
    except OSError as error:
        raise StoreNotFoundError(
            f"no local cluster in {state_dir} has a store {store}: give --url, or run `qss up`"
        ) from error
    found = (document or {}).get("endpoints", {}).get("query")
    if not found:
        raise StoreNotFoundError(f"store {store} has no address yet: see `qss status {store}`")
    return str(found)


def _key_serde(client: Store) -> Serde:
    return serde_of(client.metadata().definition.key_serde)


def _key(serde: Serde, text: str) -> Any:
    return serde.to_json(serde.decode(serde.key_from_text(text)))


def _field(serde: Serde, text: str) -> tuple[str, Any]:
    name, separator, value = text.partition("=")
    if not separator:
        raise MalformedRequestError(f"a field is written name=value, not {text!r}")
    if name in _KEY_FIELDS:
        return name, _key(serde, value)
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def _numbers(text: str | None) -> list[int] | None:
    if text is None:
        return None
    try:
        return [int(number) for number in text.split(",")]
    except ValueError as error:
        raise MalformedRequestError(f"partitions are numbers like 0,3, not {text!r}") from error


def _options(
    position_bound: str | None, timeout_s: float, *, require_active: bool = False
) -> ReadOptions:
    bound = None
    if position_bound is not None:
        is_json = position_bound.lstrip().startswith("{")
        bound = parse_bound(_json_of(position_bound) if is_json else position_bound)
    return ReadOptions(position_bound=bound, require_active=require_active, timeout_s=timeout_s)


def _json_of(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise MalformedRequestError(f"no JSON: {text[:80]!r}: {error}") from error


# --- Printing


def _print_rows(rows: Iterable[Row], output: Output) -> None:
    documents = (_document(row) for row in rows)
    if output is Output.NDJSON:
        for document in documents:
            typer.echo(_line(document))
        return
    everything = list(documents)
    if output is Output.JSON:
        typer.echo(json.dumps(everything, indent=2, ensure_ascii=False))
        return
    names = [name for name in ("key", "value", "timestamp", "headers") if _has(everything, name)]
    table = _table(*[name.upper() for name in names or ["KEY", "VALUE"]])
    for document in everything:
        table.add_row(*[_cell(document.get(name)) for name in names])
    Console().print(table)


def _table(*headers: str) -> Table:
    """Long cells are folded: what is cut cannot be copied."""
    return Table(*[Column(header, overflow="fold") for header in headers], box=None)


def _has(documents: list[dict[str, Any]], name: str) -> bool:
    return any(name in document for document in documents)


def _document(row: Row) -> dict[str, Any]:
    document: dict[str, Any] = {"key": row.key, "value": row.value}
    if row.timestamp is not None:
        document["timestamp"] = row.timestamp
    if row.headers is not None:
        document["headers"] = [{"key": key, "value": value} for key, value in row.headers]
    return document


def _print_results(results: list[PartitionResult], output: Output) -> None:
    documents = [_result_document(result) for result in results]
    if output is Output.NDJSON:
        for document in documents:
            typer.echo(_line(document))
        return
    if output is Output.JSON:
        typer.echo(json.dumps(documents, indent=2, ensure_ascii=False))
        return
    table = _table("PARTITION", "RESULT", "SEQUENCE", "SERVED BY")
    for result, document in zip(results, documents, strict=True):
        answer = document.get("failure", document.get("result"))
        for number, one in enumerate(answer if isinstance(answer, list) else [answer]):
            first = number == 0
            table.add_row(
                str(result.partition) if first else "",
                _cell(one),
                str(result.sequence or "") if first else "",
                result.served_by or "" if first else "",
            )
    Console().print(table)
    for result in results:
        for line in result.execution_info:
            typer.echo(f"{result.partition}: {line}")


def _result_document(result: PartitionResult) -> dict[str, Any]:
    failure = result.failure
    position = result.position
    members = {
        "partition": result.partition,
        "failure": None if failure is None else f"{failure.code}: {failure.message}",
        "position": None if position is None else position.to_json(),
        "sequence": result.sequence,
        "servedBy": result.served_by,
        "role": result.role,
        "epoch": result.epoch,
        "executionInfo": list(result.execution_info) or None,
    }
    document = {name: value for name, value in members.items() if value is not None}
    return document if failure is not None else {**document, "result": result.result}


def _line(document: Any) -> str:
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"))


def _cell(value: Any) -> Text:
    """A text as it is, unless a terminal would take it for something else."""
    return Text(value if isinstance(value, str) and value.isprintable() else _line(value))
