"""Rewrites a store's errors with the names of commands and options."""

from collections.abc import Iterator
from contextlib import contextmanager

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
