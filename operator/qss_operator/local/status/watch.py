"""Shows the published status again and again: `qss status --watch`."""

import asyncio
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from rich.console import Console
from rich.live import Live
from rich.text import Text

from qss_operator.local.directory.state import StateDirectory
from qss_operator.local.status.present import why_old
from qss_operator.local.status.view import Output, show_statuses

_WATCH_S = 0.2
_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)


async def watch_statuses(state: StateDirectory, store: str | None, output: Output) -> None:
    """Shows every change until Ctrl-C: in place on a terminal, else one text after the other.

    Raises StoreNotFoundError for an unknown store.
    """
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in _STOP_SIGNALS:
        loop.add_signal_handler(number, stop.set)
    told = show_statuses(state, store, output)
    seen = _versions(state)
    with _screen() as show:
        show(told)
        while not stop.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(_WATCH_S):
                    await stop.wait()
            # Reading takes longer than finding out that nothing was written.
            if (now := _versions(state)) == seen:
                continue
            seen = now
            if (text := show_statuses(state, store, output)) != told:
                told = text
                show(told)


@contextmanager
def _screen() -> Iterator[Callable[[str], None]]:
    """A function that shows a text in the place of the last one, or after it."""
    if not sys.stdout.isatty():
        yield lambda text: print(text, flush=True)  # noqa: T201 the output of a command.
        return
    console = Console()
    with Live(console=console, auto_refresh=False, vertical_overflow="crop") as live:
        yield lambda text: live.update(Text(text), refresh=True)


def _versions(state: StateDirectory) -> object:
    """A value that changes when a status is published or becomes old, or stores start or stop."""
    stores = state.stores()
    files = [(state.resource_version(name), state.status_version(name)) for name in stores]
    old = [why_old(state, name) for name in stores]
    return stores, files, old, state.running()
