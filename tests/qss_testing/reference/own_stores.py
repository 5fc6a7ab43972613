"""Custom store types, and a simple reference of their indexes."""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

from qss_core.formats.values import decode_value
from qss_core.model import StoreDefinition, StoreType
from qss_store.runtime.plugins import Extensions
from qss_store.storage.index_keys import Indexing
from qss_store.storage.views.indexed import IndexedView
from qss_store.storage.views.read_view import ReadView
from qss_testing.pods.extension_package import modules_of_guide
from qss_testing.pods.stores import make_definition

OWN = "ByMember"


class ByValue:
    """Indexes text values by the whole value and by the first letter."""

    version = 1
    indexes: Mapping[str, str] = {"by-value": "string", "by-first": "string"}

    def __init__(self, options: Mapping[str, str], store: StoreDefinition) -> None:
        """The option `fails_at` is a value that the type refuses."""
        self._fails_at = options.get("fails_at")

    def index_keys(self, key: Any, value: Any) -> Iterable[tuple[str, Any]]:
        """Two index keys; one if the value is empty."""
        if value == self._fails_at:
            raise ValueError(f"no luck with {value}")
        yield "by-value", value
        if value:
            yield "by-first", value[0]


class NextByValue(ByValue):
    """The next version of the type, which indexes only by the last letter."""

    version = 2

    def index_keys(self, key: Any, value: Any) -> Iterable[tuple[str, Any]]:
        """One index key, if there is a letter."""
        if value == self._fails_at:
            raise ValueError(f"no luck with {value}")
        return [("by-first", value[-1])] if value else []


BY_VALUE = Extensions(stores={"ByValue": ByValue})
NEXT_BY_VALUE = Extensions(stores={"ByValue": NextByValue})


def by_value(partitions: int = 1, **members: Any) -> StoreDefinition:
    """A store of the type ByValue."""
    given = {"type": StoreType.CUSTOM, "custom_name": "ByValue", "value_serde": "string"}
    return make_definition(partitions, **{**given, **members})


def guides_extensions(**changes: Any) -> Extensions:
    """The guides' store type under its name; `changes` replaces members of the class."""
    names: dict[str, Any] = {}
    exec(modules_of_guide()["by_member.py"], names)
    return Extensions(stores={OWN: type(OWN, (names["ByMember"],), changes)})


@lru_cache(maxsize=100_000)  # Each check of a row needs its index rows.
def _index_rows(indexing: Indexing, key: bytes, value: bytes) -> tuple[bytes, ...]:
    return tuple(indexing.rows_of(key, value))


def check_index(view: ReadView, indexing: Indexing | None) -> None:
    """The index rows in this view fit its rows."""
    snapshot = view.rows
    assert isinstance(snapshot, IndexedView)
    assert indexing is not None
    rows = [(key, decode_value(view.format, row)) for key, row in snapshot.scan()]
    expected = sorted(one for row in rows for one in _index_rows(indexing, *row))
    assert [key for key, _ in snapshot.index.scan()] == expected
    assert [key for key, _ in snapshot.index.scan(reverse=True)] == expected[::-1]
