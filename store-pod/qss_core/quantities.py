"""Durations and quantities in a resource: `1h30m`, `64Mi`."""

import re
from decimal import ROUND_CEILING, Decimal

from qss_core.errors import MalformedRequestError

DURATION_PATTERN = "^([0-9]+(ms|s|m|h))+$"
QUANTITY_PATTERN = "^[0-9]{1,15}([.][0-9]{1,3})?(k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?$"
# For container resources: all quantities of Kubernetes, without a sign.
RESOURCE_QUANTITY_PATTERN = (
    "^([0-9]+([.][0-9]*)?|[.][0-9]+)([numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]+)?$"
)

_UNIT_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000}
_SHOWN_UNITS = (("h", 3_600_000), ("min", 60_000), ("s", 1000), ("ms", 1))
_DURATION_PART = re.compile("([0-9]+)(ms|s|m|h)")
_KUBERNETES_QUANTITY = re.compile(
    r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+))(?:([numkMGTPE]|[KMGTPE]i)|[eE]([+-]?[0-9]{1,4}))?"
)
_QUANTITY = re.compile(r"([0-9.]+)([A-Za-z]*)")
_SCALE = {
    "": 1,
    **{unit: 1000**power for power, unit in enumerate("kMGTPE", start=1)},
    **{f"{unit}i": 1024**power for power, unit in enumerate("KMGTPE", start=1)},
}
_KUBERNETES_SCALE = {
    **{unit: Decimal(scale) for unit, scale in _SCALE.items()},
    "m": Decimal("1e-3"),
    "u": Decimal("1e-6"),
    "n": Decimal("1e-9"),
}


def parse_duration_ms(text: str) -> int:
    """The milliseconds of a duration such as `1h30m` or `500ms`."""
    if re.fullmatch(DURATION_PATTERN, text) is None:
        days = re.fullmatch("([0-9]{1,6})d", text)
        instead = f"there are no days: write it as {int(days[1]) * 24}h" if days else ""
        raise MalformedRequestError(
            f"{text!r} is no duration; {instead or 'write it as 500ms, 10s, 30m or 1h30m'}"
        )
    return sum(int(count) * _UNIT_MS[unit] for count, unit in _DURATION_PART.findall(text))


def shown_duration(milliseconds: int) -> str:
    """A duration for a person, exactly: `1 h`, `1 h 30 min`, `1 s 500 ms`."""
    parts = []
    for name, unit_ms in _SHOWN_UNITS:
        count, milliseconds = divmod(milliseconds, unit_ms)
        if count:
            parts.append(f"{count} {name}")
    return " ".join(parts) or "0 ms"


def parse_quantity_bytes(quantity: int | str) -> int:
    """The bytes of a quantity such as `64Mi`, `1.5Gi` or a plain number, rounded up."""
    if isinstance(quantity, int):
        return quantity
    match = re.fullmatch(QUANTITY_PATTERN, quantity)
    if match is None:
        raise MalformedRequestError(
            f"{quantity!r} is no quantity; write it as 65536, 64Ki or 1.5Gi"
        )
    number, unit = _QUANTITY.fullmatch(quantity).groups()  # type: ignore[union-attr]
    return int((Decimal(number) * _SCALE[unit]).to_integral_value(ROUND_CEILING))


def shown_bytes(count: int) -> str:
    """Bytes for a person: `64 MiB`, `1.5 GiB`, `0 MiB`; a small part of a MiB as `3 KiB`."""
    if 0 < count < 1024**2:
        return f"{-(-count // 1024)} KiB"
    unit, name = (1024**3, "GiB") if count >= 1024**3 else (1024**2, "MiB")
    return f"{count / unit:.1f}".removesuffix(".0") + f" {name}"


def parse_kubernetes_bytes(quantity: int | str) -> int:
    """The bytes of a quantity that an API server has normalized, rounded up.

    It uses more forms than people do: `1.1Gi` becomes `1181116006400m`. Raises
    MalformedRequestError.
    """
    amount = Decimal(quantity) if isinstance(quantity, int) else kubernetes_amount(quantity)
    if amount is None or amount < 0:
        raise MalformedRequestError(f"{quantity!r} is no quantity of Kubernetes")
    return int(amount.to_integral_value(ROUND_CEILING))


def kubernetes_amount(quantity: str) -> Decimal | None:
    """The exact value of a Kubernetes quantity; None if the text is not one."""
    match = _KUBERNETES_QUANTITY.fullmatch(quantity)
    if match is None:
        return None
    number, unit, exponent = match.groups()
    scale = Decimal(10) ** int(exponent) if exponent else _KUBERNETES_SCALE[unit or ""]
    return Decimal(number) * scale
