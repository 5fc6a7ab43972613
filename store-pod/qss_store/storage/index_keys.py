"""Makes the index rows of a row in a store of a custom type. Pure, except for the user's code.

A row of the index family has no value; its key is: number of the index (1) | index key, its 00
bytes as 00 FF | 00 00 | the row's key. So rows are ordered by index, index key and key. Index keys
are the bytes of their serde, changed for numbers so that negative ones come first.
"""

import hashlib
import logging
from collections.abc import Callable, Mapping
from itertools import islice
from typing import Any

import msgspec

from qss_core.errors import (
    MalformedRequestError,
    RangeReversedError,
    StoreError,
    StoreTypeFailedError,
    StoreTypeRefusedError,
)
from qss_core.model import StoreDefinition, StoreType
from qss_core.serdes.registry import Serde, serde_of
from qss_store.runtime.plugins import Extensions, IndexedStore

# These are no settings: all replicas need the same limits.
INDEXES_MAX = 16  # Indexes of one store.
INDEX_KEYS_MAX = 16  # Index keys of one row.
INDEX_KEY_BYTES_MAX = 1024
NAME_CHARS_MAX = 63
# Without lists and json, whose bytes have no useful order.
INDEX_SERDES = (
    *("bytes", "string", "int16", "int32", "int64"),
    *("float32", "float64", "boolean", "uuid"),
)
_LAYOUT = 1  # The version of the index rows; with another version the indexes are rebuilt.
_END = b"\x00\x00"
_LOG = logging.getLogger(__name__)


class Index:
    """One index: its number within the store, and the serde of its keys."""

    def __init__(self, name: str, number: int, serde: Serde) -> None:
        """`number` is the first byte of its rows."""
        self.name = name
        self.serde = serde
        self._start = bytes((number,))
        self._flip = _FLIPS.get(serde.name, _same)
        self._unflip = _UNFLIPS.get(serde.name, _same)

    def head(self, index_key: Any) -> bytes:
        """The beginning of the rows of an index key. Raises MalformedRequestError."""
        data = self.serde.encode(self.serde.from_json(index_key))
        if len(data) > INDEX_KEY_BYTES_MAX:
            raise MalformedRequestError(
                f"an index key of {len(data)} bytes: at most {INDEX_KEY_BYTES_MAX} are allowed"
            )
        return self._start + self._flip(data).replace(b"\x00", b"\x00\xff") + _END

    def bounds(self, lower: Any, upper: Any) -> tuple[bytes, bytes]:
        """The bounds of the row keys of an inclusive range: lower <= row key < upper."""
        first = self._start if lower is None else self.head(lower)
        end = bytes((self._start[0] + 1,))
        if upper is not None:
            last = self.head(upper)
            if first > last:
                raise RangeReversedError(
                    f"the lower bound lies above the upper one, in the order of index {self.name} "
                    f"({self.serde.name}); for the reverse order say DESCENDING"
                )
            end = last[:-1] + b"\x01"
        return first, end

    def parts(self, index_row: bytes) -> tuple[bytes, bytes]:
        """The index key, in its serde's bytes, and the row's key."""
        at = index_row.index(_END, 1)
        data = index_row[1:at].replace(b"\x00\xff", b"\x00")
        return self._unflip(data), index_row[at + len(_END) :]


class Indexing:
    """The indexes of one store, as its type declares them."""

    def __init__(self, name: str, store: IndexedStore, definition: StoreDefinition) -> None:
        """Raises StoreTypeRefusedError for a type that does not declare its indexes correctly."""
        if not isinstance(store, IndexedStore):
            raise _unusable(name, "it needs version, indexes and index_keys")
        self.name = name
        self.version = _checked_version(name, store.version)
        self.indexes = _checked_indexes(name, store.indexes)
        self._index_keys = store.index_keys
        self._key_of = _reader_of(serde_of(definition.key_serde))
        self._value_of = _reader_of(serde_of(definition.value_serde))
        self._key_text = serde_of(definition.key_serde).key_to_text
        kept = {name: index.serde.name for name, index in self.indexes.items()}
        said = [_LAYOUT, name, self.version, definition.custom_options, kept]
        self.fingerprint = hashlib.blake2b(msgspec.json.encode(said), digest_size=8).hexdigest()

    def index(self, name: str) -> Index:
        """An index. Raises MalformedRequestError, which names all indexes."""
        if name not in self.indexes:
            known = ", ".join(self.indexes)
            raise MalformedRequestError(f"there is no index {name[:80]!r}: there are {known}")
        return self.indexes[name]

    def rows_of(self, key: bytes, value: bytes) -> dict[bytes, bytes]:
        """The index rows of a row, by their keys.

        Raises StoreTypeFailedError for every error of the type.
        """
        try:
            said = self._index_keys(self._key_of(key), self._value_of(value))
            found = [*islice(said, INDEX_KEYS_MAX + 1)]
            rows = {self.indexes[name].head(index_key) + key: b"" for name, index_key in found}
        except Exception as error:
            what = error.message if isinstance(error, StoreError) else f"{error}"
            kind = type(error).__name__
            raise self._failed("failed at", key, f": {kind}", f": {what}") from error
        if len(found) > INDEX_KEYS_MAX:
            raise self._failed("gives", key, f" more than {INDEX_KEYS_MAX} index keys")
        return rows

    def _failed(self, does: str, key: bytes, what: str, more: str = "") -> StoreTypeFailedError:
        """The failure at a row; its message has neither the key nor `more`, its text has both."""
        who = f"the store type {self.name} (version {self.version}) {does} the row"
        digest = hashlib.blake2b(key, digest_size=4).hexdigest()
        return StoreTypeFailedError(
            f"{who} whose key has the digest {digest}{what}",
            text=f"{who} of key {self._shown(key)}{what}{more}",
        )

    def check(self, key: bytes, value: bytes) -> None:
        """Raises MalformedRequestError for a writer's row that the type cannot take."""
        try:
            self.rows_of(key, value)
        except StoreTypeFailedError as error:
            raise MalformedRequestError(f"{error.text}. Nothing was written") from error

    def _shown(self, key: bytes) -> str:
        try:
            return repr(self._key_text(key)[:80])
        except StoreError:
            return key[:40].hex()


def indexing_of(definition: StoreDefinition, extensions: Extensions) -> Indexing | None:
    """The indexes of a store; None for the built-in types.

    Raises StoreTypeRefusedError if no package has the type, the type is not usable, or it refuses
    the options.
    """
    if definition.type is not StoreType.CUSTOM:
        return None
    assert definition.custom_name is not None, "the definition was checked"
    name = definition.custom_name
    make = extensions.store(name)
    try:
        store = make(dict(definition.custom_options), definition)
        return Indexing(name, store, definition)
    except StoreError:
        raise
    except (LookupError, TypeError, ValueError) as error:
        raise StoreTypeRefusedError(
            f"spec.store.custom.options: the store type {name} does not take them: "
            f"{type(error).__name__}: {error}"
        ) from error
    except Exception as error:
        _LOG.exception("the store type %s failed", name)
        raise _unusable(name, f"{type(error).__name__}: {error}") from error


def _unusable(name: str, why: str) -> StoreTypeRefusedError:
    return StoreTypeRefusedError(f"the store type {name} is installed and cannot be used: {why}")


def _checked_version(name: str, version: object) -> int:
    if type(version) is not int or version < 1:
        raise _unusable(name, f"its version is a number from 1 on, not {version!r}")
    return version


def _checked_indexes(name: str, indexes: Mapping[str, str]) -> dict[str, Index]:
    if not isinstance(indexes, Mapping) or not 1 <= len(indexes) <= INDEXES_MAX:
        raise _unusable(name, f"its indexes are 1 to {INDEXES_MAX}, by name: {indexes!r}")
    checked = {}
    for number, (index, serde) in enumerate(indexes.items()):
        if not isinstance(index, str) or not 1 <= len(index) <= NAME_CHARS_MAX:
            raise _unusable(name, f"an index has a name of up to {NAME_CHARS_MAX} characters")
        if serde not in INDEX_SERDES:
            known = ", ".join(INDEX_SERDES)
            raise _unusable(name, f"index {index}: a serde is one of {known}, not {serde!r}")
        checked[index] = Index(index, number, serde_of(serde))
    return checked


def _reader_of(serde: Serde) -> Callable[[bytes], Any]:
    """Makes the function (stored bytes) -> the object that an answer shows."""
    return lambda data: serde.to_json(serde.decode(data))


# --- Bytes of numbers that sort like the numbers


def _same(data: bytes) -> bytes:
    return data


def _flip_sign(data: bytes) -> bytes:
    return bytes((data[0] ^ 0x80,)) + data[1:]


def _flip_all(data: bytes) -> bytes:
    return bytes(255 - byte for byte in data)


def _order_float(data: bytes) -> bytes:
    return _flip_all(data) if data[0] & 0x80 else _flip_sign(data)


def _unorder_float(data: bytes) -> bytes:
    return _flip_sign(data) if data[0] & 0x80 else _flip_all(data)


_INTEGERS = dict.fromkeys(("int16", "int32", "int64"), _flip_sign)
_FLOATS = ("float32", "float64")
_FLIPS = {**_INTEGERS, **dict.fromkeys(_FLOATS, _order_float)}
_UNFLIPS = {**_INTEGERS, **dict.fromkeys(_FLOATS, _unorder_float)}
