"""A view of one column family at one moment: a RocksDB snapshot, and an iterator for scans."""

from collections.abc import Iterator, Sequence
from functools import partial

from rocksdict import Rdict
from rocksdict import Snapshot as RocksSnapshot

from qss_store.storage.engine import Get
from qss_store.storage.rocksdb.errors import translated
from qss_store.storage.rocksdb.iterators import Held, backward, forward, newest

_MISSING = "key not found"


class RocksDbFamilyView:
    """A view of one family at one moment.

    rocksdict's snapshots answer `get` as of their moment, but their iterators read the newest
    state. So scans share one iterator of the family, which fixes the moment when it is opened: at
    the first scan, or by `pin` before the family is written again. Each scan uses the iterator for
    a stretch of rows, and seeks to its own place first; only one thread may do so. Until `pin` a
    forward scan has its own, faster iterator, and uses the shared one only after its last row.
    """

    def __init__(self, family: Rdict) -> None:
        self._family: Rdict | None = family
        self._raw: RocksSnapshot | None = family.snapshot()
        self._iterator: Held | None = None
        self._is_newest = True  # Until `pin`: the family has not changed.

    def get(self, key: bytes) -> bytes | None:
        raw, family = self._raw, self._family
        assert raw is not None, "the view is closed"
        if not self._is_newest:
            return _read((raw, family), key)
        assert family is not None, "closed with the view"
        try:  # This is faster, above all for a missing key.
            newest: bytes | None = family.get(key)
        except Exception as error:
            raise translated(error) from error
        return newest

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """The values of many keys.

        While the family has not changed, one call without a snapshot reads them, twice as fast as a
        call for each key.
        """
        raw = self._raw
        assert raw is not None, "the view is closed"
        if self._is_newest:
            return self._get_newest(keys)
        values: list[bytes | None] = []
        for key in keys:
            try:
                values.append(raw[key])
            except Exception as error:
                if str(error) != _MISSING:
                    raise translated(error) from error
                values.append(None)
        return values

    def _get_newest(self, keys: Sequence[bytes]) -> list[bytes | None]:
        assert self._family is not None, "the view is closed"
        try:
            values: list[bytes | None] = self._family.get([*keys])  # type: ignore[assignment]
        except Exception as error:
            raise translated(error) from error
        return values

    def reader(self) -> Get:
        """A function that gets rows of this moment, also after `close`."""
        assert self._raw is not None, "the view is closed"
        # Keep the family, too: it may be dropped meanwhile.
        return partial(_read, (self._raw, self._family))

    def pin(self) -> None:
        """Fixes the view for all later reads."""
        self._held()
        self._is_newest = False

    def _held(self) -> Held:
        if self._iterator is None:
            assert self._family is not None, "the view is closed"
            self._iterator = (self._family.iter(), self._family)
        return self._iterator

    def scan(
        self, *, lower: bytes | None = None, upper: bytes | None = None, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        held = self._held()
        if reverse:
            return backward(held, lower, upper)
        return (newest if self._is_newest else forward)(held, lower, upper)

    def close(self) -> None:
        """Releases the state; a running scan keeps the iterator."""
        self._family = None
        self._raw = None
        self._iterator = None


def _read(held: tuple[RocksSnapshot, Rdict | None], key: bytes) -> bytes | None:
    try:
        value: bytes = held[0][key]
    except Exception as error:
        if str(error) == _MISSING:
            return None
        raise translated(error) from error
    return value
