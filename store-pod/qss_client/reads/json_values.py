"""Reads the JSON of an answer: as Python's types, with exact numbers, or unread. Pure.

Python's own reading changes numbers: 12345678901234567890.123456789 becomes a float, and 1e400
infinity. Values that must not change are read as Decimal, or not read at all.
"""

import json
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import msgspec

from qss_core.errors import MalformedRequestError, StoreError

JsonReader = Callable[[bytes], Any]

_DIGITS_MAX = 4300  # Python refuses to read whole numbers with more digits.
_SMALL_DIGITS_MAX = 18
_ROWS = frozenset(("rows", "results"))
_PARTITIONS = "partitionResults"
_RESULT = "result"
_VALUES = frozenset(("key", "value", "indexKey"))
_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_items = msgspec.json.Decoder(list[msgspec.Raw]).decode


def reader_of(*, decimal: bool, raw: bool) -> JsonReader:
    """The reader for the options of a client."""
    if decimal and raw:
        raise MalformedRequestError("decimal and raw: give one of them")
    return read_raw if raw else read_decimals if decimal else read_json


def read_json(body: bytes) -> Any:
    """JSON as Python's types: a number with a point or an exponent is a float."""
    try:
        return json.loads(body)
    except json.JSONDecodeError as error:
        raise _no_json(error) from error
    except ValueError as error:
        raise StoreError(
            f"the answer has a whole number of more than {_DIGITS_MAX} digits: a client with "
            "decimal=True gives it as a Decimal"
        ) from error
    except RecursionError as error:
        raise _too_deep() from error


def read_decimals(body: bytes) -> Any:
    """As `read_json`, with an exact Decimal for each number with a point or an exponent."""
    try:
        return json.loads(body, parse_float=Decimal, parse_int=_whole)
    except ValueError as error:
        raise _no_json(error) from error
    except RecursionError as error:
        raise _too_deep() from error


def _whole(text: str) -> int | Decimal:
    return int(text) if len(text) <= _DIGITS_MAX else Decimal(text)


def read_raw(body: bytes) -> Any:
    """As `read_json`, with keys, values and results as msgspec.Raw: the store's bytes."""
    try:
        return _envelope(body)
    except (msgspec.DecodeError, ValueError) as error:
        raise _no_json(error) from error
    except RecursionError as error:
        raise _too_deep() from error


def _envelope(body: bytes | msgspec.Raw) -> dict[str, Any]:
    return {name: _member(name, raw) for name, raw in _members(body).items()}


def _member(name: str, raw: msgspec.Raw) -> Any:
    if name in _VALUES:
        return _kept(raw)
    if name in _ROWS:
        return [_envelope(one) for one in _items(raw)]
    if name == _PARTITIONS:
        return {partition: _envelope(one) for partition, one in _members(raw).items()}
    if name == _RESULT:
        return _result(raw)
    return json.loads(bytes(raw))


def _result(raw: msgspec.Raw) -> Any:
    """A row, rows, a count, or the result of a custom query type."""
    text = bytes(raw)
    if text.startswith(b"["):
        return [_result(one) for one in _items(raw)]
    if text.startswith(b'{"key":'):
        return _envelope(raw)
    if text == b"null" or (len(text) <= _SMALL_DIGITS_MAX and text.isdigit()):
        return json.loads(text)
    return _kept(raw)


def _kept(raw: msgspec.Raw) -> msgspec.Raw:
    """A copy, so that a value does not keep the whole answer in memory."""
    return raw.copy()


def _no_json(error: Exception) -> StoreError:
    return StoreError(f"the answer is no JSON: {error}")


def _too_deep() -> StoreError:
    return StoreError(
        "the answer has arrays or objects in each other that are too deep for Python: read the "
        "key's bytes over HTTP"
    )
