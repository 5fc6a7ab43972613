"""Members of JSON objects as columns: `--columns flights,distance`."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from qss_core.errors import MalformedRequestError

_VALUE = "value"
_AS_COLUMN = "value."  # Keeps a member apart from a column of the same name, as `key`.
Columns = tuple[str, ...]  # The names of members, with dots for members of members.


def columns_of(text: str | None) -> Columns:
    """The columns of a command line. Raises MalformedRequestError for an empty or doubled name."""
    if text is None:
        return ()
    names = tuple(name.strip() for name in text.split(","))
    if "" in names or len(set(names)) < len(names):
        raise MalformedRequestError(
            f"columns are names of members like flights,distance, each once, not {text!r}"
        )
    return names


def with_columns(
    documents: Iterable[Mapping[str, Any]], columns: Columns
) -> Iterator[dict[str, Any]]:
    """The documents with the members of their value in its place; absent members are left out."""
    for document in documents:
        found: dict[str, Any] = {}
        for name, value in document.items():
            if name == _VALUE:
                found |= _members(value, columns)
            else:
                found[name] = value
        yield found


def names_with_columns(names: Iterable[str], columns: Columns) -> list[str]:
    """The names of the columns of a document, with the given ones in the place of the value."""
    inner = [_AS_COLUMN + name for name in columns]
    return [one for name in names for one in (inner if name == _VALUE else [name])]


def title_of(name: str) -> str | None:
    """The name of a member that is a column; None for any other column."""
    return name.removeprefix(_AS_COLUMN) if name.startswith(_AS_COLUMN) else None


def _members(value: Any, columns: Columns) -> Iterator[tuple[str, Any]]:
    whole = _object(value)
    for name in columns:
        found = whole
        if name in whole:
            yield _AS_COLUMN + name, whole[name]
            continue
        *outer, last = name.split(".")
        for step in outer:
            found = _object(found.get(step))
        if last in found:
            yield _AS_COLUMN + name, found[last]


def _object(value: Any) -> Mapping[str, Any]:
    """The members of a JSON object, each as the store's JSON; no members for another value."""
    if not isinstance(value, msgspec.Raw):
        return value if isinstance(value, Mapping) else {}
    try:
        members: dict[str, msgspec.Raw] = msgspec.json.decode(value, type=dict[str, msgspec.Raw])
    except msgspec.ValidationError:
        return {}
    return members
