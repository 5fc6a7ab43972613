"""Rewrites errors with the names of commands and options."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer
from typer.core import TyperGroup

from qss_client.store import Store
from qss_core.errors import RangeReversedError, UnknownQueryTypeError
from qss_core.model import StoreType
from qss_core.times import time_of_text

_COMMANDS = {
    StoreType.KEY_VALUE: "qss scan {}",
    StoreType.CUSTOM: "qss scan {}",
    StoreType.WINDOW: "qss windows {}",
    StoreType.SESSION: "qss sessions {}",
    StoreType.VERSIONED: "qss versions {} KEY",
}
Given = tuple[str, str | None]  # An option, and its text.
# Typer has no public name for the base of its errors of usage.
_USAGE_ERROR: type[Exception] = typer.BadParameter.mro()[1]
_UNKNOWN_OPTION = "NoSuchOption"
_KEYS = frozenset({"key", "keys"})


class AdvisingGroup(TyperGroup):
    """Commands that say how a key that begins with `-` is written where it is read as an option."""

    def invoke(self, ctx: Any) -> Any:
        """Runs the command; raises the error of an unknown option with the advice."""
        try:
            return super().invoke(ctx)
        except _USAGE_ERROR as error:
            # The classes of errors are those of typer, or of click below typer 0.26.
            given: Any = error
            if type(error).__name__ == _UNKNOWN_OPTION and _takes_keys(given.ctx):
                given.message += (
                    ". A key that begins with - stands behind --, as in "
                    f"`{given.ctx.command_path} STORE -- -KEY`"
                )
            raise


def _takes_keys(context: Any) -> bool:
    return context is not None and any(
        one.param_type_name == "argument" and one.name in _KEYS for one in context.command.params
    )


@contextmanager
def advising(client: Store) -> Iterator[None]:
    """Names the right command, if the store has another type."""
    try:
        yield
    except UnknownQueryTypeError as error:
        definition = client.metadata().definition
        command = _COMMANDS[definition.type].format(definition.name)
        raise UnknownQueryTypeError(
            f"store {definition.name} is a {definition.type} store: use `{command}`"
        ) from error


@contextmanager
def advising_of_times(client: Store, first: Given, last: Given) -> Iterator[None]:
    """As `advising`; for a reversed range it names the given options, too."""
    with advising(client):
        try:
            yield
        except RangeReversedError as error:
            raise _reversed(first, last) from error


def _reversed(first: Given, last: Given) -> RangeReversedError:
    how = "--order says in which order rows are printed"
    (first_option, earlier), (last_option, later) = first, last
    if earlier is not None and later is not None:
        times = time_of_text(first_option, earlier), time_of_text(last_option, later)
        if times[0] > times[1]:
            return RangeReversedError(
                f"{first_option} {earlier} lies after {last_option} {later}: {first_option} is the "
                f"earlier one; {how}"
            )
    return RangeReversedError(
        "--key-from lies above --key-to, in the order of the keys' bytes (negative numbers come "
        f"after positive ones): --key-from is the smaller one; {how}"
    )
