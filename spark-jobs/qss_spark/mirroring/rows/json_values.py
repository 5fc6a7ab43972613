"""Makes JSON of the values of Arrow. Pure.

Times are RFC 3339, bytes are base64, and decimals keep their digits. Years before 1 and after 9999
are written as Spark writes them: +10000-01-01, -0001-01-01. NaN and infinity are null in values;
in keys, which have to differ, they are the texts of the serdes of floats.
"""

import base64
import math
from collections.abc import Callable
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import msgspec
import pyarrow as pa

ToJson = Callable[[Any], Any]
_ENCODE = msgspec.json.encode
_DAY, _FIRST = date(1970, 1, 1), datetime(1970, 1, 1)  # noqa: DTZ001 a zone is written behind it.
_DAY_US = 86_400_000_000
_CYCLE_YEARS, _CYCLE_DAYS = 400, 146_097  # The calendar repeats after them.
_YEAR_DIGITS, _YEAR_MAX = 4, 9999


def python_of(values: pa.Array) -> list[Any]:
    """The values as Python has them, but times and dates as the numbers that Arrow has.

    Python has no years before 1 and after 9999, and Spark has.
    """
    plain = _plain(values.type)
    found: list[Any] = (values if plain == values.type else values.cast(plain)).to_pylist()
    return found


def json_of(kind: pa.DataType, *, is_key: bool = False) -> ToJson | None:
    """The function that makes JSON of a value of `python_of`; None where the value is JSON."""
    if pa.types.is_struct(kind):
        return _struct_json({one.name: json_of(one.type, is_key=is_key) for one in kind})
    if pa.types.is_list(kind):
        element = json_of(kind.value_type, is_key=is_key)
        return None if element is None else _nullable(lambda held: list(map(element, held)))
    if pa.types.is_map(kind):
        name, item = json_of(kind.key_type, is_key=True), json_of(kind.item_type, is_key=is_key)
        return _nullable(
            lambda held: {_text(key, name): item(one) if item else one for key, one in held}
        )
    if pa.types.is_timestamp(kind):
        zone = "" if kind.tz is None else "Z"
        return _nullable(lambda held: f"{_time(held)}{zone}")
    if pa.types.is_date(kind):
        return _nullable(_date)
    if pa.types.is_binary(kind):
        return _nullable(lambda held: base64.b64encode(held).decode())
    if pa.types.is_floating(kind):
        return _nullable(_float_key if is_key else _float)
    if pa.types.is_decimal(kind):
        return _nullable(_number)
    return None


def _plain(kind: pa.DataType) -> pa.DataType:
    """A type whose times and dates are numbers."""
    if pa.types.is_struct(kind):
        return pa.struct([one.with_type(_plain(one.type)) for one in kind])
    if pa.types.is_list(kind):
        return pa.list_(_plain(kind.value_type))
    if pa.types.is_map(kind):
        return pa.map_(_plain(kind.key_type), _plain(kind.item_type))
    if pa.types.is_timestamp(kind):
        return pa.int64()
    return pa.int32() if pa.types.is_date(kind) else kind


def _struct_json(members: dict[str, ToJson | None]) -> ToJson | None:
    """Changes only the members that are no JSON."""
    changing = {name: made for name, made in members.items() if made is not None}
    if not changing:
        return None
    return _nullable(
        lambda held: {**held, **{name: made(held[name]) for name, made in changing.items()}}
    )


def _nullable(made: ToJson) -> ToJson:
    return lambda held: None if held is None else made(held)


def _number(value: Decimal) -> Any:
    """The digits of a decimal, all of them and without an exponent."""
    return msgspec.Raw(f"{value:f}".encode())


def _float(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _float_key(value: float) -> float | str:
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _time(value: int) -> str:
    """The text of microseconds since 1970, with as many digits of a second as it needs."""
    try:
        return (_FIRST + timedelta(microseconds=value)).isoformat()
    except OverflowError:
        days, rest = divmod(value, _DAY_US)
        cycles, day = divmod(days, _CYCLE_DAYS)
        return _far(_FIRST + timedelta(days=day, microseconds=rest), cycles)


def _date(value: int) -> str:
    """The text of a number of days since 1970."""
    try:
        return (_DAY + timedelta(days=value)).isoformat()
    except OverflowError:
        cycles, day = divmod(value, _CYCLE_DAYS)
        return _far(_DAY + timedelta(days=day), cycles)


def _far(near: date, cycles: int) -> str:
    """A date or a time so many cycles of the calendar later, with a sign before a longer year."""
    year = near.year + _CYCLE_YEARS * cycles
    digits = _YEAR_DIGITS + (year < 0)
    shown = f"+{year}" if year > _YEAR_MAX else f"{year:0{digits}d}"
    return shown + near.isoformat()[_YEAR_DIGITS:]


def _text(key: Any, made: ToJson | None) -> str:
    """A key of a map as the name of a member."""
    shown = key if made is None else made(key)
    return shown if isinstance(shown, str) else _ENCODE(shown).decode()
