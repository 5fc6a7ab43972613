"""Query types and store types of a user's own, from installed packages (KIP-67's, KIP-796's way).

A package names its query types in the entry-point group `queryable_state.queries`, its store types
in `queryable_state.stores`; the name there is the type's. The guides with examples are
store-pod/docs/query-types.md and store-pod/docs/store-types.md.
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

Row = dict[str, Any]  # As answers show it: key, value, and what else the rows of the query have.


@runtime_checkable
class PartitionQuery(Protocol):
    """One query of a user's own at work in one partition.

    It is made anew for each partition and lives in a pod's only thread: each call has up to 500
    rows to look at, and all others of the pod wait until it returns.
    """

    @property
    def source(self) -> Mapping[str, Any]:
        """The built-in query whose rows it reads, as IQv2 has it: `{"type": "RangeQuery"}`."""

    def add(self, rows: Sequence[Row]) -> bool:
        """Takes the next rows; whether it wants more."""

    def result(self) -> Any:
        """The partition's result, which JSON can say."""


@runtime_checkable
class IndexedStore(Protocol):
    """One store of a user's own type: a KeyValue store with indexes, which the pod maintains.

    One object for each store and pod. It has no state that `index_keys` reads: every replica has to
    find the same, whenever it is asked.
    """

    @property
    def version(self) -> int:
        """Rises whenever `index_keys` would say anything else of a row: indexes are made anew."""

    @property
    def indexes(self) -> Mapping[str, str]:
        """The indexes by name, each with the serde of its keys."""

    def index_keys(self, key: Any, value: Any) -> Iterable[tuple[str, Any]]:
        """Under which keys of which indexes a row is to be found; key and value as answers show."""


# Makes the query of one partition from the members of the request, without `type`. A LookupError,
# TypeError or ValueError says what is wrong with them: the caller is told, by a 400.
QueryType = Callable[[Mapping[str, Any], StoreDefinition], PartitionQuery]
# Makes a store from `spec.store.custom.options`. The same errors say what is wrong with them: the
# pod refuses its assignment, and the store's conditions say why.
StoreTypeMaker = Callable[[Mapping[str, str], StoreDefinition], IndexedStore]


@dataclass(frozen=True, slots=True)
class Extensions:
    """The query types and store types that were found, and why others cannot be used."""

    queries: Mapping[str, QueryType] = field(default_factory=dict)
    broken: Mapping[str, str] = field(default_factory=dict)
    stores: Mapping[str, StoreTypeMaker] = field(default_factory=dict)
    broken_stores: Mapping[str, str] = field(default_factory=dict)

    def query(self, name: str) -> QueryType:
        """A query type. Raises UnknownQueryTypeError, which names all that there are."""
        if name in self.queries:
            return self.queries[name]
        if name in self.broken:
            raise UnknownQueryTypeError(
                f"the query type {name} is installed and cannot be used: {self.broken[name]}"
            )
        known = ", ".join([*QUERY_TYPES, *self.queries])
        raise UnknownQueryTypeError(f"unknown query type {name[:80]!r}: there are {known}")

    def store(self, name: str) -> StoreTypeMaker:
        """A store type. Raises StoreTypeRefusedError, which names all that there are."""
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
    """What the installed packages have; one that does not load is logged, and told who asks it."""
    return Extensions(
        *_load_all("query", entry_points(group=QUERIES), QUERY_TYPES),
        *_load_all("store", entry_points(group=STORES), ()),
    )


def _load_all(
    kind: str, points: Iterable[EntryPoint], built_in: Collection[str]
) -> tuple[dict[str, Any], dict[str, str]]:
    """The objects of one group by name, and why others cannot be used."""
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
