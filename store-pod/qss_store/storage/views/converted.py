"""Shows rows of several formats in one format, while a migration moves them.

A key is in one family only: a write or a move of a row deletes it from the other families in the
same batch. A read looks into the newer family first, whose row wins. Rows in an older format are
converted when they are read, and stay as they are on the disk.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from qss_core.errors import MalformedBytesError, unreadable
from qss_core.formats.values import Format, RowConverter, converter_of
from qss_store.storage.engine import FamilyView, Get
from qss_store.storage.stretches import Row, RowStretches, Stretch, converted, merged, stretches_of


@dataclass(frozen=True, slots=True)
class Older:
    """A family of an older format; no key below `moved_below` is left in it."""

    rows: FamilyView
    format: Format
    moved_below: bytes


class ConvertedView:
    """A FamilyView over families in several formats; it shows all rows in one format.

    A read raises StoreError for a row that does not have the format of its family.
    """

    def __init__(self, newer: FamilyView, older: Sequence[Older], written: Format) -> None:
        """Owns the views of all families; shows every row in the format `written`."""
        self._newer = newer
        # Each older family, converted, with the key below which it has no rows left.
        self._older = [
            (ConvertedRows(one.rows, converter_of(one.format, written)), one.moved_below)
            for one in older
        ]
        self._owned = (newer, *(one.rows for one in older))

    def get(self, key: bytes) -> bytes | None:
        value = self._newer.get(key)
        if value is None:
            for rows, moved_below in self._older:
                if key >= moved_below and (value := rows.get(key)) is not None:
                    return value
        return value

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        values = self._newer.get_many(keys)
        for rows, moved_below in self._older:
            missing = [
                place
                for place, value in enumerate(values)
                if value is None and keys[place] >= moved_below
            ]
            if missing:
                found = rows.get_many([keys[place] for place in missing])
                for place, value in zip(missing, found, strict=True):
                    values[place] = value
        return values

    def reader(self) -> Get:
        """A function that gets rows of this moment, also after `close`."""
        newer = self._newer.reader()
        readers = [(rows.reader(), moved_below) for rows, moved_below in self._older]

        def get(key: bytes) -> bytes | None:
            value = newer(key)
            if value is None:
                for older, moved_below in readers:
                    if key >= moved_below and (value := older(key)) is not None:
                        return value
            return value

        return get

    def pin(self) -> None:
        """Fixes the rows of all families."""
        for view in self._owned:
            view.pin()

    def scan(
        self, *, lower: bytes | None = None, upper: bytes | None = None, reverse: bool = False
    ) -> Iterator[Row]:
        """Rows with lower <= key < upper in key order, each key once."""
        rows = stretches_of(self._newer.scan(lower=lower, upper=upper, reverse=reverse))
        for older, moved_below in self._older:
            first = max(lower or b"", moved_below)
            if upper is None or first < upper:
                behind = older.scan(lower=first or None, upper=upper, reverse=reverse)
                rows = merged(rows, stretches_of(behind), reverse=reverse)
        return RowStretches.of(rows)

    def close(self) -> None:
        """Closes all views; a scan that still runs keeps its own hold on the rows."""
        for view in self._owned:
            view.close()


class ConvertedRows:
    """A FamilyView that converts the rows of another view, which its owner closes.

    A read raises StoreError for a row that does not have the format to convert from.
    """

    def __init__(self, rows: FamilyView, convert: RowConverter) -> None:
        self._rows = rows
        self._convert = convert

    def get(self, key: bytes) -> bytes | None:
        value = self._rows.get(key)
        try:
            return None if value is None else self._convert(value)
        except MalformedBytesError as error:
            raise unreadable(error) from error

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        values, convert = self._rows.get_many(keys), self._convert
        try:
            return [None if value is None else convert(value) for value in values]
        except MalformedBytesError as error:
            raise unreadable(error) from error

    def reader(self) -> Get:
        """A function that gets rows of this moment, also after `close`."""
        get, convert = self._rows.reader(), self._convert

        def get_converted(key: bytes) -> bytes | None:
            value = get(key)
            try:
                return None if value is None else convert(value)
            except MalformedBytesError as error:
                raise unreadable(error) from error

        return get_converted

    def pin(self) -> None:
        """Does nothing: the owner pins its rows."""

    def scan(
        self, *, lower: bytes | None = None, upper: bytes | None = None, reverse: bool = False
    ) -> Iterator[Row]:
        rows = stretches_of(self._rows.scan(lower=lower, upper=upper, reverse=reverse))
        return RowStretches.of(self._all_of(rows))

    def _all_of(self, stretches: Iterator[Stretch]) -> Iterator[Stretch]:
        try:
            yield from converted(stretches, self._convert)
        except MalformedBytesError as error:
            raise unreadable(error) from error

    def close(self) -> None:
        """Does nothing: the owner closes its rows."""
