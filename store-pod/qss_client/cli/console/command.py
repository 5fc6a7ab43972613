"""The command `qss console`, which opens a store's console in a browser."""

import os
import threading
import webbrowser
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from qss_client.addresses import local_stores
from qss_client.cli.console.gateway import gateway
from qss_client.cli.option_groups import Reaching, reaching
from qss_client.cli.options import Place, connection_of, limits_of
from qss_client.http.sync_http import SyncHttp
from qss_core.errors import MalformedRequestError, PathNotFoundError, StoreError
from qss_core.text import listed


def register(app: typer.Typer) -> None:
    app.command()(console)


@reaching
def console(
    store: Annotated[
        str | None, typer.Argument(help="the store; default: the only one that is there")
    ] = None,
    no_browser: Annotated[  # noqa: FBT002 an option of a command.
        bool, typer.Option("--no-browser", help="print the address, and open no browser")
    ] = False,
    *,
    reached: Reaching,
) -> None:
    """Open the console of a store, a page that shows it, in a browser."""
    limits_of(reached.timeout_s)
    place = reached.place
    name = store or _only_store(reached)
    with connection_of(name, place) as to, closing(to.http()) as http:
        url = _with_console(http, to.urls, reached.timeout_s)
        asks_token = to.shown.has_token
        if not (asks_token or place.is_on_kubernetes or to.shown.ca_file):
            _show(f"{url}/console/", no_browser=no_browser)
            return
        options = kubectl_options(name, place)
        with (
            gateway(http, url, reached.timeout_s, options, asks_token=asks_token) as address,
            redirect_file(address) as file_url,
        ):
            _show(address, opened=file_url, no_browser=no_browser)
            _wait("passes the requests of the page on" + ", with your token" * asks_token)


def _only_store(reached: Reaching) -> str:
    """The name of the store where none is given. Raises MalformedRequestError."""
    place = reached.place
    if place.is_on_kubernetes:
        raise MalformedRequestError("name the store: qss console --kube NAMESPACE/STORE")
    if place.url or os.environ.get("QSS_URL"):
        return "-"  # A pod has one store, and the page asks it for the name.
    stores = local_stores(place.state_dir)
    if len(stores) != 1:
        there = f"one of {listed(stores)}" if stores else f"there is none in {place.state_dir}"
        raise MalformedRequestError(f"name the store: {there}")
    return stores[0]


def kubectl_options(store: str, place: Place) -> list[str]:
    """The options by which `kubectl qss` finds the store; none where it is not on Kubernetes.

    store: NAMESPACE/STORE, or STORE where the place has the namespace.
    """
    if not place.is_on_kubernetes:
        return []
    given = (
        ("-n", place.namespace or store.partition("/")[0]),
        ("--context", place.context),
        ("--kubeconfig", place.kubeconfig),
        ("--token-file", place.token_file),
        ("--ca-file", place.ca_file),
    )
    account = place.service_account
    options = [word for name, value in given if value for word in (name, str(value))]
    return options if account == "default" else [*options, "--service-account", account]


def _with_console(http: SyncHttp, urls: Iterable[str], timeout_s: float) -> str:
    """The first URL whose pod serves the page. Raises the error of the last pod."""
    failure: StoreError | None = None
    for url in urls:
        try:
            http.request("GET", f"{url}/console/", timeout_s=timeout_s)
        except PathNotFoundError as error:
            raise PathNotFoundError(
                f"{url} has no console: its store says spec.access.console: false, the pod's "
                "environment says QSS_CONSOLE=0, or the pod is of a version without one"
            ) from error
        except StoreError as error:
            failure = error
        else:
            return url
    assert failure is not None, "a store has a URL"
    raise failure


@contextmanager
def redirect_file(address: str) -> Iterator[str]:
    """The URL of a file that leads a browser to the address; only this user may read the file.

    Every user of the machine sees the line of the browser's process, and the address has a code.
    """
    with TemporaryDirectory(prefix="qss-console-") as directory:  # Its mode is 0700.
        path = Path(directory) / "open.html"
        page = f'<meta charset="utf-8"><meta http-equiv="refresh" content="0; url={address}">\n'
        with open(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w") as file:
            file.write(page)
        yield path.as_uri()


def _show(address: str, *, opened: str | None = None, no_browser: bool) -> None:
    """Prints the address, and opens it, or `opened` instead, in a browser."""
    typer.echo(address)
    if not no_browser and not webbrowser.open(opened or address):
        typer.echo("no browser could be opened: open the address", err=True)


def _wait(what: str) -> None:
    typer.echo(f"this command {what}; Ctrl-C ends it", err=True)
    threading.Event().wait()
