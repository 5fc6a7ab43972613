"""JSON values as columns of a type that the user has given, as Spark's `from_json` reads them."""

from collections.abc import Callable
from datetime import date, datetime
from typing import Any

import msgspec
import pyarrow as pa

from qss_core.errors import MalformedRequestError

_Convert = Callable[[Any], Any]
_NOT_FINITE = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}


def parse_column(
    texts: pa.ChunkedArray, keys: pa.ChunkedArray, kind: pa.DataType
) -> pa.ChunkedArray:
    """The values of JSON texts (string) as a type: absent members are null, others are left out.

    Times are RFC 3339, and NaN and infinities texts, as StoreSink writes them. `keys` has the rows'
    keys, for errors. Raises MalformedRequestError, which names the row of a value that does not
    fit.
    """
    convert = _converter(kind)
    values = texts.to_pylist()
    found: list[Any] = []
    for place, text in enumerate(values):
        try:
            found.append(None if text is None else convert(msgspec.json.decode(text)))
        except (ValueError, TypeError) as error:
            raise _refused(keys[place].as_py(), text, kind, error) from error
    try:
        return pa.chunked_array([pa.array(found, kind)])
    except (pa.ArrowException, OverflowError) as error:
        raise _refused_column(found, keys, values, kind, error) from error


def _converter(kind: pa.DataType) -> _Convert:
    """The function that makes an Arrow value of the type from a decoded JSON value."""
    if pa.types.is_struct(kind):
        members = [(member.name, _converter(member.type)) for member in kind]
        return _unless_null(
            lambda value: {name: convert(_object(value).get(name)) for name, convert in members}
        )
    if pa.types.is_map(kind):
        item = _converter(kind.item_type)
        return _unless_null(lambda value: [(key, item(one)) for key, one in _object(value).items()])
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        element = _converter(kind.value_type)
        return _unless_null(lambda value: [element(one) for one in _list(value)])
    if pa.types.is_timestamp(kind):
        return _unless_null(datetime.fromisoformat)
    if pa.types.is_date(kind):
        return _unless_null(date.fromisoformat)
    if pa.types.is_floating(kind):
        return _unless_null(_number)
    if pa.types.is_integer(kind):
        return _unless_null(_whole_number)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return _unless_null(_text)
    return lambda value: value


def _unless_null(convert: _Convert) -> _Convert:
    return lambda value: None if value is None else convert(value)


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise TypeError(f"an object expected, got {value!r}")
    return value


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError(f"an array expected, got {value!r}")
    return value


def _number(value: Any) -> Any:
    """A number, or the text of one that JSON lacks; Arrow would take booleans as well."""
    if isinstance(value, bool):
        raise TypeError("a number expected, got a boolean")
    return _NOT_FINITE.get(value, value) if isinstance(value, str) else value


def _whole_number(value: Any) -> int:
    """A whole number: Arrow would cut the rest of another one off."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"a whole number expected, got {value!r}")
    return value


def _text(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _refused_column(
    found: list[Any], keys: pa.ChunkedArray, texts: list[Any], kind: pa.DataType, error: Exception
) -> MalformedRequestError:
    """The error for the first value that Arrow does not take."""
    for place, value in enumerate(found):
        try:
            pa.array([value], kind)
        except (pa.ArrowException, OverflowError) as reason:
            return _refused(keys[place].as_py(), texts[place], kind, reason)
    return _refused(None, None, kind, error)


def _refused(key: Any, text: Any, kind: pa.DataType, error: Exception) -> MalformedRequestError:
    return MalformedRequestError(
        f"the value of key {key!r} is not of the given type {kind}: {str(text)[:200]}: {error}: "
        "give a type that fits all rows, or read `value string` and parse it with F.from_json"
    )
