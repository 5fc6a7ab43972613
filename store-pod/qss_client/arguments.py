"""Checks the arguments that a program gives to a client: a wrong one is refused by its name. Pure.

Without these checks Python's own TypeErrors would tell of the client's code, and a text such as
"no" would be taken for a yes.
"""

import reprlib
from collections.abc import Iterable, Mapping, Sequence

from qss_core.errors import MalformedRequestError

SECONDS_MAX = 10**9  # More than 30 years: beyond it a number is taken for a mistake.


def shown_value(value: object) -> str:
    """A wrong argument in an error, shortened: an integer may have thousands of digits."""
    if isinstance(value, int) and abs(value) >= 10**18:
        return "an integer of more than 18 digits"
    return reprlib.repr(value)


def is_whole_number(value: object) -> bool:
    """Whether it is an int; True and False are none."""
    return isinstance(value, int) and not isinstance(value, bool)


def check_choice(name: str, value: object) -> None:
    """Raises MalformedRequestError for any other value than True and False."""
    if not isinstance(value, bool):
        raise MalformedRequestError(f"{name}: True or False, not {shown_value(value)}")


def check_seconds(name: str, value: object, *, least: float | None = None) -> None:
    """Raises MalformedRequestError for no number of seconds, or one below `least`."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or value != value:  # NaN is unlike itself.
        raise MalformedRequestError(f"{name}: seconds, not {shown_value(value)}")
    if isinstance(value, int | float) and abs(value) > SECONDS_MAX:
        raise MalformedRequestError(f"{name}: at most {SECONDS_MAX} s, not {shown_value(value)}")
    if least is not None and isinstance(value, int | float) and value < least:
        raise MalformedRequestError(f"{name}: at least {least:g} s, not {shown_value(value)}")


def check_limit(limit: object) -> None:
    """Raises MalformedRequestError for an invalid number of rows; None is no limit."""
    is_number = isinstance(limit, int) and not isinstance(limit, bool) and limit >= 0
    if limit is not None and not is_number:
        raise MalformedRequestError(
            f"limit: a whole number of rows from 0, or None, not {shown_value(limit)}"
        )


def check_partitions(partitions: object) -> None:
    """Raises MalformedRequestError unless it is a list of numbers; None stands for all."""
    if partitions is None:
        return
    if not isinstance(partitions, Sequence) or isinstance(partitions, str | bytes):
        raise MalformedRequestError(f"partitions: a list as [0, 3], not {shown_value(partitions)}")
    if not partitions:
        raise MalformedRequestError("partitions: name one at least, or leave it out for all")
    for partition in partitions:
        if not is_whole_number(partition):
            raise MalformedRequestError(f"partitions: whole numbers, not {shown_value(partition)}")


def check_text(name: str, value: object) -> None:
    """Raises MalformedRequestError for a value that is no text; None passes."""
    if value is not None and not isinstance(value, str):
        raise MalformedRequestError(f"{name}: a text, not {shown_value(value)}")


def check_file(name: str, value: object) -> None:
    """Raises MalformedRequestError for a value that is no path of a file; None passes."""
    is_path = isinstance(value, str) or hasattr(value, "__fspath__")
    if value is not None and not (is_path and str(value)):
        raise MalformedRequestError(f"{name}: the path of a file, not {shown_value(value)}")


def keys_of(keys: object) -> list[object]:
    """Many keys as a list. Raises MalformedRequestError for a text and for a dict."""
    if isinstance(keys, str | bytes | Mapping) or not isinstance(keys, Iterable):
        shown = shown_value(keys)
        raise MalformedRequestError(f"keys: a list of keys, as [{shown}], not {shown}")
    return list(keys)
