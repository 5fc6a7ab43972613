"""The command `qss top`, which shows the present work of stores, again and again."""

import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Annotated

import typer

from qss_client.addresses import checked_urls, local_metrics_urls, local_stores
from qss_client.cli.option_groups import Reaching, reaching
from qss_client.cli.options import connection_of, limits_of
from qss_client.cli.printing import Output, print_document, without_csv
from qss_client.cli.shell.names import store_names
from qss_client.cli.tables import terminal_width
from qss_client.cli.top.rates import Shown, shown_of
from qss_client.cli.top.sampling import Sampler, StoreSample
from qss_client.cli.top.screen import screen_lines
from qss_client.clock import SystemClock
from qss_core.errors import MalformedRequestError

_INTERVAL_MIN_S = 0.5
_STORES_MAX = 20
_HOME_AND_CLEAR = "\x1b[H\x1b[2J"


def register(app: typer.Typer) -> None:
    app.command()(top)


@reaching
def top(
    stores: Annotated[
        list[str] | None,
        typer.Argument(
            help="stores; default: all of the local cluster", autocompletion=store_names
        ),
    ] = None,
    interval: Annotated[
        float, typer.Option(min=_INTERVAL_MIN_S, help="seconds between two looks")
    ] = 2.0,
    limit: Annotated[int | None, typer.Option(min=1, help="end after so many screens")] = None,
    metrics_url: Annotated[
        str | None,
        typer.Option(help="the ops ports of a store's pods, by their numbers, with commas"),
    ] = None,
    *,
    reached: Reaching,
) -> None:
    """Show partitions, rows/s, reads/s and latency of stores, redrawn until Ctrl-C."""
    without_csv(reached.output)
    names = _names(stores, reached)
    if metrics_url is not None and len(names) > 1:
        raise MalformedRequestError("--metrics-url has the pods of one store: name one store")
    with ExitStack() as stack:
        watched = [_Watched(stack, name, reached, metrics_url) for name in names]
        screens = screens_of(watched, lambda: _wait(interval))
        for number, shown in enumerate(screens, start=1):
            _print(shown, reached.output)
            if number == limit:
                return


def screens_of(watched: "list[_Watched]", wait: Callable[[], None]) -> Iterator[tuple[Shown, ...]]:
    """Yields a screen after each pair of samples, without end; calls `wait` between two samples."""
    before = [one.sample() for one in watched]
    while True:
        wait()
        now = [one.sample() for one in watched]
        yield tuple(map(shown_of, before, now))
        before = now


class _Watched:
    """One store, with its connection."""

    def __init__(
        self, stack: ExitStack, name: str, reached: Reaching, metrics_url: str | None
    ) -> None:
        place = reached.place
        connection = stack.enter_context(connection_of(name, place))
        limits = limits_of(reached.timeout_s)
        with connection.client(limits, raw=True) as client:
            self._metadata = client.metadata()
        http = connection.http()
        stack.callback(http.close)
        urls: tuple[str, ...] = ()
        if metrics_url is not None:
            urls = checked_urls(metrics_url)
        elif place.url is None and not os.environ.get("QSS_URL") and not place.is_on_kubernetes:
            urls = local_metrics_urls(name, place.state_dir)
        self._sampler = Sampler(http, connection, urls, SystemClock())

    def sample(self) -> StoreSample:
        """The store now; while no pod tells the routes, with the pods that were known last."""
        found = self._sampler.sample(self._metadata)
        self._metadata = found.metadata
        return found


def _names(given: list[str] | None, reached: Reaching) -> list[str]:
    place = reached.place
    names = given or ([] if place.url or place.is_on_kubernetes else local_stores(place.state_dir))
    if not names:
        raise MalformedRequestError(
            "which store? `qss top STORE`; without a name it shows those of the local cluster"
        )
    if len(names) > _STORES_MAX:
        raise MalformedRequestError(f"at most {_STORES_MAX} stores are shown: name some of them")
    return names


def _wait(interval_s: float) -> None:
    time.sleep(interval_s)  # noqa: TID251 the pause between two looks.


def _print(shown: tuple[Shown, ...], output: Output) -> None:
    if output is not Output.TABLE:
        for one in shown:
            document = {**one.store, "pods": list(one.pods), "partitions": list(one.partitions)}
            print_document(document, Output.NDJSON)
        return
    is_terminal = sys.stdout.isatty()
    height = shutil.get_terminal_size().lines - 1 if is_terminal else None
    lines = screen_lines(shown, width=terminal_width(), height=height)
    # One write, so that a terminal does not flicker.
    sys.stdout.write((_HOME_AND_CLEAR if is_terminal else "") + "\n".join(lines) + "\n")
    sys.stdout.flush()
