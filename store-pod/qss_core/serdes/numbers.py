"""Kafka's serdes of numbers: int16, int32, int64, float32 and float64, byte for byte."""

import math
import re
import struct
from dataclasses import dataclass

import msgspec

from qss_core.serdes.contract import wrong_bytes, wrong_json, wrong_value

_FLOAT = struct.Struct(">f")
_DOUBLE = struct.Struct(">d")
_DOUBLE_BITS = struct.Struct(">Q")
_FLOAT_BITS = struct.Struct(">I")
# A float keeps the upper 23 of a double's 52 fraction bits; its highest bit marks a quiet NaN.
_FRACTION_SHIFT = 29
_FRACTION_MASK = 0x7FFFFF
_QUIET = 0x400000
_NAN32 = 0x7F800000
_NAN64 = 0x7FF << 52

_WHOLE_NUMBER = re.compile("-?[0-9]{1,20}")
_NUMBER = re.compile(r"-?[0-9]{1,400}(\.[0-9]{1,400})?([eE][-+]?[0-9]{1,4})?")
_NOT_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
# Six digits may identify a float32, nine always do.
_FLOAT32_DIGITS = range(6, 10)


@dataclass(frozen=True, slots=True)
class IntegerSerde:
    name: str
    item_bytes: int

    def encode(self, value: int) -> bytes:
        try:
            return value.to_bytes(self.item_bytes, "big", signed=True)
        except OverflowError as error:
            raise wrong_value(self.name, value) from error

    def decode(self, data: bytes) -> int:
        if len(data) != self.item_bytes:
            raise wrong_bytes(self.name, data)
        return int.from_bytes(data, "big", signed=True)

    def to_json(self, value: int) -> int:
        return value

    def from_json(self, obj: object) -> int:
        if type(obj) is not int:
            raise wrong_json(self.name, obj)
        self.encode(obj)
        return obj

    def json_bytes(self, data: bytes) -> bytes:
        return b"%d" % self.decode(data)

    def key_to_text(self, data: bytes) -> str:
        return str(self.decode(data))

    def key_from_text(self, text: str) -> bytes:
        if not _WHOLE_NUMBER.fullmatch(text):
            raise wrong_value(self.name, text)
        return self.encode(int(text))


@dataclass(frozen=True, slots=True)
class FloatSerde:
    """An IEEE number, big-endian; a NaN keeps its payload bits."""

    name: str
    item_bytes: int

    def encode(self, value: float) -> bytes:
        try:
            if self.item_bytes == _DOUBLE.size:
                return _DOUBLE.pack(value)
            return _encode_nan32(value) if math.isnan(value) else _FLOAT.pack(value)
        except OverflowError as error:
            raise wrong_value(self.name, value) from error

    def decode(self, data: bytes) -> float:
        if len(data) != self.item_bytes:
            raise wrong_bytes(self.name, data)
        if self.item_bytes == _DOUBLE.size:
            double: float = _DOUBLE.unpack(data)[0]
            return double
        single: float = _FLOAT.unpack(data)[0]
        return _decode_nan32(data) if math.isnan(single) else single

    def to_json(self, value: float) -> float | str:
        if math.isfinite(value):
            return value if self.item_bytes == _DOUBLE.size else _shorten_float32(value)
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"

    def from_json(self, obj: object) -> float:
        if isinstance(obj, str) and obj in _NOT_FINITE:
            return _NOT_FINITE[obj]
        if type(obj) is not int and type(obj) is not float:
            raise wrong_json(self.name, obj)
        try:
            value = float(obj)
        except OverflowError as error:
            raise wrong_value(self.name, obj) from error
        if not math.isfinite(value):
            # JSON has no infinite numbers: this one was too large for a double.
            raise wrong_value(self.name, obj)
        # Round a float32 now, so that the value equals the value that is read later.
        return self.decode(self.encode(value))

    def json_bytes(self, data: bytes) -> bytes:
        return msgspec.json.encode(self.to_json(self.decode(data)))

    def key_to_text(self, data: bytes) -> str:
        return str(self.to_json(self.decode(data)))

    def key_from_text(self, text: str) -> bytes:
        if text in _NOT_FINITE:
            return self.encode(_NOT_FINITE[text])
        if not _NUMBER.fullmatch(text):
            raise wrong_value(self.name, text)
        return self.encode(self.from_json(float(text)))


def _shorten_float32(value: float) -> float:
    """The shortest decimal with the same float32: 0.1, not 0.10000000149011612."""
    data = _FLOAT.pack(value)
    shorter = (float(f"{value:.{digits}g}") for digits in _FLOAT32_DIGITS)
    return next(short for short in shorter if _FLOAT.pack(short) == data)


# The processor's conversion between float and double changes signalling NaNs.
def _decode_nan32(data: bytes) -> float:
    bits: int = _FLOAT_BITS.unpack(data)[0]
    sign, fraction = bits >> 31, bits & _FRACTION_MASK
    wide = _DOUBLE_BITS.pack(sign << 63 | _NAN64 | fraction << _FRACTION_SHIFT)
    value: float = _DOUBLE.unpack(wide)[0]
    return value


def _encode_nan32(value: float) -> bytes:
    wide: int = _DOUBLE_BITS.unpack(_DOUBLE.pack(value))[0]
    fraction = wide >> _FRACTION_SHIFT & _FRACTION_MASK
    return _FLOAT_BITS.pack(wide >> 63 << 31 | _NAN32 | (fraction or _QUIET))
