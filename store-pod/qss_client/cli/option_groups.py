"""The options that several commands share: how to reach a store, and how to read from it."""

import inspect
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

from qss_client.cli.options import (
    Bound,
    CaPath,
    Context,
    Format,
    Kube,
    Kubeconfig,
    KubeContext,
    Namespace,
    Place,
    RequireActive,
    Seen,
    ServiceAccount,
    Staleness,
    StateDir,
    Timeout,
    TokenPath,
    Url,
    open_store,
    read_options,
)
from qss_client.cli.printing import Output
from qss_client.kube.kubectl import current_namespace
from qss_client.reads.requests import ReadOptions
from qss_client.store import Store

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Reaching:
    """The options of all commands: the store's place, the timeout, the format of the output."""

    place: Place
    timeout_s: float
    output: Output


@dataclass(frozen=True, slots=True)
class Asking:
    """The options of commands that read: the options of all commands, and those of a read."""

    reached: Reaching
    options: ReadOptions

    @property
    def output(self) -> Output:
        """The format of the printed answer."""
        return self.reached.output

    def of_key_in(self, partition: int | None) -> ReadOptions:
        """The options of a read of keys; `partition` is theirs where a writer chose it."""
        return replace(self.options, partition=partition)

    def store(self, name: str) -> AbstractContextManager[Store]:
        return open_store(name, self.reached.place, self.reached.timeout_s)


def _taking(
    make: Callable[..., Any], name: str
) -> Callable[[Callable[..., Result]], Callable[..., Result]]:
    """Adds the options of `make` to a command, which gets the result of `make` as `name`."""
    shared = inspect.signature(make).parameters

    def decorate(command: Callable[..., Result]) -> Callable[..., Result]:
        @wraps(command)
        def run(**given: Any) -> Result:
            theirs = {option: given.pop(option) for option in shared}
            return command(**given, **{name: make(**theirs)})

        own = inspect.signature(command)
        kept = (one for one in own.parameters.values() if one.name != name)
        parameters = [*kept, *shared.values()]
        # Typer reads the signature, and the annotations by name.
        run.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {one.name: one.annotation for one in parameters}
        return run

    return decorate


def _reached(
    url: Url = None,
    token_file: TokenPath = None,
    ca_file: CaPath = None,
    kube: Kube = False,  # noqa: FBT002 an option of a command.
    context: Context = None,
    service_account: ServiceAccount = "default",
    state_dir: StateDir = Path(".qss"),
    output: Format = Output.TABLE,
    timeout: Timeout = 10.0,
) -> Reaching:
    place = Place(url, state_dir, token_file, ca_file, kube, context, service_account)
    return Reaching(place, timeout, output)


def _reached_by_kubectl(
    namespace: Namespace = None,
    context: KubeContext = None,
    kubeconfig: Kubeconfig = None,
    service_account: ServiceAccount = "default",
    token_file: TokenPath = None,
    ca_file: CaPath = None,
    output: Format = Output.TABLE,
    timeout: Timeout = 10.0,
) -> Reaching:
    place = Place(
        url=None,
        state_dir=Path(),
        token_file=token_file,
        ca_file=ca_file,
        is_on_kubernetes=True,
        context=context,
        service_account=service_account,
        kubeconfig=kubeconfig,
        namespace=namespace or current_namespace(context, kubeconfig),
    )
    return Reaching(place, timeout, output)


reaching = _taking(_reached, "reached")
reaching_by_kubectl = _taking(_reached_by_kubectl, "reached")


def _asked(
    require_active: RequireActive = False,  # noqa: FBT002 an option of a command.
    position_bound: Bound = None,
    isolation: Seen = None,
    max_staleness: Staleness = None,
    *,
    reached: Reaching,
) -> Asking:
    given = read_options(
        position_bound,
        reached.timeout_s,
        isolation,
        require_active=require_active,
        max_staleness_s=max_staleness,
    )
    return Asking(reached, given)


asking = _taking(reaching(_asked), "asked")


def asking_by_kubectl(command: Callable[..., Result]) -> Callable[..., Result]:
    """A command of `qss` with the options of kubectl in the place of those that find a store.

    A command that asks no store is returned unchanged.
    """
    own = inspect.unwrap(command)  # Without the options of `asking` or `reaching`.
    names = inspect.signature(own).parameters
    if "asked" in names:
        return _taking(reaching_by_kubectl(_asked), "asked")(own)
    return reaching_by_kubectl(own) if "reached" in names else command
