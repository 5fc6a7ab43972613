"""The options that every command that asks a store takes, written once."""

import inspect
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any

from qss_client.cli_options import (
    Bound,
    CaPath,
    Context,
    Format,
    Kube,
    Place,
    RequireActive,
    Seen,
    ServiceAccount,
    StateDir,
    Timeout,
    TokenPath,
    Url,
    open_store,
    read_options,
)
from qss_client.cli_printing import Output
from qss_client.requests import ReadOptions
from qss_client.store import Store


@dataclass(frozen=True, slots=True)
class Asking:
    """How a store is found, asked, and its answer printed."""

    place: Place
    timeout_s: float
    output: Output
    options: ReadOptions

    def store(self, name: str) -> AbstractContextManager[Store]:
        """A client of the store."""
        return open_store(name, self.place, self.timeout_s)


def asking(command: Callable[..., None]) -> Callable[..., None]:
    """A command with these options too, which it gets as `asked`, its last parameter."""
    shared = inspect.signature(_asked).parameters

    @wraps(command)
    def run(**given: Any) -> None:
        theirs = {name: given.pop(name) for name in shared}
        command(**given, asked=_asked(**theirs))

    own = inspect.signature(command)
    kept = (one for one in own.parameters.values() if one.name != "asked")
    parameters = [*kept, *shared.values()]
    # What typer reads: the signature, and the annotations by name.
    run.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {one.name: one.annotation for one in parameters}
    return run


def _asked(
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
    isolation: Seen = None,
    timeout: Timeout = 10.0,
) -> Asking:
    return Asking(
        place=Place(url, state_dir, token_file, ca_file, kube, context, service_account),
        timeout_s=timeout,
        output=output,
        options=read_options(position_bound, timeout, isolation, require_active=require_active),
    )
