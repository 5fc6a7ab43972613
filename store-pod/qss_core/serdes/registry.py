"""The serdes by the names in a store's definition."""

from qss_core.errors import MalformedRequestError
from qss_core.serdes.contract import Serde
from qss_core.serdes.json import JsonSerde
from qss_core.serdes.lists import ListSerde
from qss_core.serdes.numbers import FloatSerde, IntegerSerde
from qss_core.serdes.scalars import BooleanSerde, BytesSerde, StringSerde, UuidSerde

__all__ = ["LIST_DEPTH_MAX", "SERDE_NAMES", "Serde", "serde_of"]

LIST_DEPTH_MAX = 8

_SCALARS: dict[str, Serde] = {
    serde.name: serde
    for serde in (
        BytesSerde(),
        StringSerde(),
        IntegerSerde("int16", 2),
        IntegerSerde("int32", 4),
        IntegerSerde("int64", 8),
        FloatSerde("float32", 4),
        FloatSerde("float64", 8),
        BooleanSerde(),
        UuidSerde(),
        JsonSerde(),
    )
}
SERDE_NAMES = tuple(_SCALARS)

_LIST_START = "list<"
_LIST_END = ">"


def serde_of(name: str) -> Serde:
    """The serde of a name, such as `int64` or `list<string>`; lists nest up to LIST_DEPTH_MAX.

    Raises MalformedRequestError for any other name.
    """
    inner, depth = name, 0
    while inner.startswith(_LIST_START) and inner.endswith(_LIST_END) and depth <= LIST_DEPTH_MAX:
        inner, depth = inner[len(_LIST_START) : -len(_LIST_END)], depth + 1
    serde = _SCALARS.get(inner)
    if serde is None or depth > LIST_DEPTH_MAX:
        raise MalformedRequestError(
            f"unknown serde {name[:80]!r}: one of {', '.join(SERDE_NAMES)}, or list<...> of them, "
            f"at most {LIST_DEPTH_MAX} deep"
        )
    for _ in range(depth):
        serde = ListSerde(serde)
    return serde
