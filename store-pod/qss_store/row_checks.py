"""Whether staged rows are what the store's serdes read. Pure.

Bytes that are not would be stored, and no query could answer them: a scan would end at them until
somebody writes the row anew.
"""

from collections import deque

import pyarrow as pa
import pyarrow.compute as pc

from qss_core.errors import MalformedBytesError, MalformedRequestError
from qss_core.serde_json import JSON_REFUSALS, check_json_syntax
from qss_core.serde_types import Serde

# All bytes are bytes, and Java shows a text that is not UTF-8 in its own way.
_TAKE_ANYTHING = frozenset(("bytes", "string"))
_NUMBERS = frozenset(("int16", "int32", "int64", "float32", "float64"))


def check_column(column: pa.BinaryArray, serde: Serde, what: str) -> None:
    """Refuses bytes that the serde cannot read; null is no value.

    Raises MalformedRequestError, which says `what` they are.
    """
    if serde.name in _TAKE_ANYTHING:
        return
    if serde.name in _NUMBERS:
        sizes = pc.binary_length(column)
        if pc.any(pc.not_equal(sizes, serde.item_bytes)).as_py():
            raise MalformedRequestError(
                f"{what} is no {serde.name}: it has {serde.item_bytes} bytes, big-endian"
            )
        return
    if serde.name == "json" and _are_json(column):
        return
    read = serde.json_bytes
    try:
        for one in column.drop_null().to_pylist():
            read(one)
    except MalformedBytesError as error:
        raise MalformedRequestError(f"{what} is no {serde.name}: {error.message}") from error


def _are_json(column: pa.BinaryArray) -> bool:
    """The same for many at once; it does not say what is wrong."""
    try:
        column.cast(pa.string())  # Raises where one is not UTF-8.
        deque(map(check_json_syntax, column.drop_null().to_pylist()), maxlen=0)
    except (pa.ArrowInvalid, *JSON_REFUSALS):
        return False
    return True
