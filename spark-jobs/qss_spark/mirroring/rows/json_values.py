"""Makes JSON of the values of Arrow, as Python has them. Pure.

Times are RFC 3339, bytes are base64, and decimals keep their digits; NaN and infinity are null.
"""

import base64
import math
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import msgspec
import pyarrow as pa

ToJson = Callable[[Any], Any]
_ENCODE = msgspec.json.encode


def json_of(kind: pa.DataType) -> ToJson | None:
    """What makes JSON of a value of Arrow; None where it is JSON already."""
    if pa.types.is_struct(kind):
        return _struct_json({one.name: json_of(one.type) for one in kind})
    if pa.types.is_list(kind):
        element = json_of(kind.value_type)
        return None if element is None else _nullable(lambda held: list(map(element, held)))
    if pa.types.is_map(kind):
        name, item = json_of(kind.key_type), json_of(kind.item_type)
        return _nullable(
            lambda held: {_text(key, name): item(one) if item else one for key, one in held}
        )
    if pa.types.is_timestamp(kind):
        return _nullable(_time)
    if pa.types.is_date(kind):
        return _nullable(date.isoformat)
    if pa.types.is_binary(kind):
        return _nullable(lambda held: base64.b64encode(held).decode())
    if pa.types.is_floating(kind):
        return _nullable(lambda held: held if math.isfinite(held) else None)
    if pa.types.is_decimal(kind):
        return _nullable(_number)
    return None


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


def _time(value: datetime) -> str:
    """The time as RFC 3339 has it, with as many digits of a second as it needs."""
    is_zoned = value.tzinfo is not None
    plain = value.astimezone(UTC).replace(tzinfo=None) if is_zoned else value
    return f"{plain.isoformat()}{'Z' if is_zoned else ''}"


def _text(key: Any, made: ToJson | None) -> str:
    """A key of a map as the name of a member."""
    shown = key if made is None else made(key)
    return shown if isinstance(shown, str) else _ENCODE(shown).decode()
