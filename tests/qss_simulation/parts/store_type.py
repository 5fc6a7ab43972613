"""A store type of a user's own: KeyValue with an index of the values, in several versions."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from qss_store.runtime.plugins import Extensions
from qss_store.storage.engine import FamilyView
from qss_store.storage.index_keys import Indexing
from qss_store.storage.views.indexed import IndexedView

TYPE_NAME = "by-value"


@dataclass(frozen=True, slots=True)
class ByValue:
    """An IndexedStore; another version has another index key for each row."""

    version: int
    indexes: Mapping[str, str] = field(default_factory=lambda: {"value": "string"})

    def index_keys(self, _: Any, value: Any) -> Iterable[tuple[str, Any]]:
        return [("value", f"{self.version}/{value}")]


def extensions_of(version: int) -> Extensions:
    """The store types that are installed in a pod's image."""
    return Extensions(stores={TYPE_NAME: lambda _options, _definition: ByValue(version)})


def wrong_index_rows(view: FamilyView, indexing: Indexing | None, value_from: int) -> list[bytes]:
    """Index rows that are missing or too many; a row's value begins at byte `value_from`."""
    if indexing is None:
        return []
    assert isinstance(view, IndexedView), "a store with indexes is read with them"
    held = {index_row for index_row, _ in view.index.scan()}
    wanted = {
        index_row
        for key, row in view.scan()
        for index_row in indexing.rows_of(key, row[value_from:])
    }
    return sorted(held ^ wanted)
