"""Loads custom query types and store types from installed packages (as KIP-67 and KIP-796).

A package names its query types in the entry-point group `queryable_state.queries`, and its store
types in `queryable_state.stores`; an entry point's name is the name of the type. The guides with
examples are store-pod/docs/query-types.md and store-pod/docs/store-types.md.
"""

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Protocol, runtime_checkable

from qss_core.errors import StoreTypeRefusedError, UnknownQueryTypeError
from qss_core.model import StoreDefinition
from qss_core.queries.types import QUERY_TYPES

QUERIES = "queryable_state.queries"
STORES = "queryable_state.stores"
_LOG = logging.getLogger(__name__)

Row = dict[str, Any]  # A row of an answer: key, value, and the other members of the query's rows.


@runtime_checkable
class PartitionQuery(Protocol):
    """A custom query at work in one partition.

    A new object is made for each partition. It runs in the pod's only thread: each call gets up to
    500 rows, and all other requests of the pod wait until it returns.
    """

    @property
    def source(self) -> Mapping[str, Any]:
        """The built-in query that reads its rows, in the form of IQv2: `{"type": "RangeQuery"}`."""

    def add(self, rows: Sequence[Row]) -> bool:
        """Takes the next rows; returns whether it wants more."""

    def result(self) -> Any:
        """The partition's result, which must be JSON-able."""


@runtime_checkable
class IndexedStore(Protocol):
    """A custom store type: a KeyValue store with indexes, which the pod maintains.

    Each pod makes one object for the store. `index_keys` must not depend on state: every replica
    has to get the same result at any time.
    """

    @property
    def version(self) -> int:
        """Raise it whenever `index_keys` changes its results: then the indexes are rebuilt."""

    @property
    def indexes(self) -> Mapping[str, str]:
        """The indexes by name, each with the serde of its keys."""

    def index_keys(self, key: Any, value: Any) -> Iterable[tuple[str, Any]]:
        """The index names and index keys of a row; key and value are in the form of answers."""


# Makes the query of one partition from the members of the request, without `type`. A LookupError,
# TypeError or ValueError explains invalid members: the client gets it with a 400.
QueryType = Callable[[Mapping[str, Any], StoreDefinition], PartitionQuery]
# Makes a store from `spec.store.custom.options`. The same errors explain invalid options: the pod
# refuses its assignment, and the store's conditions have the reason.
StoreTypeMaker = Callable[[Mapping[str, str], StoreDefinition], IndexedStore]


@dataclass(frozen=True, slots=True)
class Extensions:
    """The usable query types and store types, and the reasons why others are not usable."""

    queries: Mapping[str, QueryType] = field(default_factory=dict)
    broken: Mapping[str, str] = field(default_factory=dict)
    stores: Mapping[str, StoreTypeMaker] = field(default_factory=dict)
    broken_stores: Mapping[str, str] = field(default_factory=dict)

    def query(self, name: str) -> QueryType:
        """A query type. Raises UnknownQueryTypeError, which names all query types."""
        if name in self.queries:
            return self.queries[name]
        if name in self.broken:
            raise UnknownQueryTypeError(
                f"the query type {name} is installed and cannot be used: {self.broken[name]}"
            )
        known = ", ".join([*QUERY_TYPES, *self.queries])
        raise UnknownQueryTypeError(f"unknown query type {name[:80]!r}: there are {known}")

    def store(self, name: str) -> StoreTypeMaker:
        """A store type. Raises StoreTypeRefusedError, which names all store types."""
        if name in self.stores:
            return self.stores[name]
        if name in self.broken_stores:
            raise StoreTypeRefusedError(
                f"the store type {name} is installed and cannot be used: {self.broken_stores[name]}"
            )
        known = ", ".join(self.stores) or "none"
        raise StoreTypeRefusedError(
            f"no package in this pod has the store type {name!r} (there are: {known}). Install one "
            f"that names it in the entry-point group {STORES}, in the image of spec.pod.image"
        )


NO_EXTENSIONS = Extensions()


def load_extensions() -> Extensions:
    """The types of installed packages; a type that fails to load is logged, and refused later."""
    return extensions_of(entry_points(group=QUERIES), entry_points(group=STORES))


def extensions_of(queries: Iterable[EntryPoint], stores: Iterable[EntryPoint]) -> Extensions:
    """The query types and store types that these entry points name."""
    return Extensions(
        *_load_all("query", queries, QUERY_TYPES),
        *_load_all("store", stores, ()),
    )


def _load_all(
    kind: str, points: Iterable[EntryPoint], built_in: Collection[str]
) -> tuple[dict[str, Any], dict[str, str]]:
    """The objects of one group by name, and the reasons why others are not usable."""
    loaded: dict[str, Any] = {}
    broken: dict[str, str] = {}
    for point in points:
        try:
            found = _load(point, {*built_in, *loaded, *broken})
        except Exception as error:  # noqa: BLE001 other people's code: whatever it raises is told.
            loaded.pop(point.name, None)
            broken[point.name] = f"{type(error).__name__}: {error}"
            _LOG.error("%s type %s of %s: %s", kind, point.name, point.value, broken[point.name])
        else:
            loaded[point.name] = found
    return loaded, broken


def _load(point: EntryPoint, taken: Collection[str]) -> Callable[..., Any]:
    if point.name in taken:
        raise ValueError("the name is taken, by a built-in one or by another package")
    found: Callable[..., Any] = point.load()
    if not callable(found):
        raise TypeError(f"{point.value} cannot be called")
    return found
