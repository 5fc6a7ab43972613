"""Query types of a user's own, from installed packages (KIP-796's extension point).

A package names its query types in the entry-point group `queryable_state.queries`; the name there
is the query's type. The guide with an example is in store-pod/README.md.
"""

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Protocol, runtime_checkable

from qss_core.errors import UnknownQueryTypeError
from qss_core.model import StoreDefinition
from qss_core.query_types import QUERY_TYPES

QUERIES = "queryable_state.queries"
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


# Makes the query of one partition from the members of the request, without `type`. A LookupError,
# TypeError or ValueError says what is wrong with them: the caller is told, by a 400.
QueryType = Callable[[Mapping[str, Any], StoreDefinition], PartitionQuery]


@dataclass(frozen=True, slots=True)
class Extensions:
    """The query types that were found, and why others cannot be used."""

    queries: Mapping[str, QueryType] = field(default_factory=dict)
    broken: Mapping[str, str] = field(default_factory=dict)

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


def load_extensions(found: Iterable[EntryPoint] | None = None) -> Extensions:
    """What the installed packages have; one that does not load is logged, and told who asks it."""
    queries: dict[str, QueryType] = {}
    broken: dict[str, str] = {}
    for point in entry_points(group=QUERIES) if found is None else found:
        try:
            query = _load(point, {*QUERY_TYPES, *queries, *broken})
        except Exception as error:  # noqa: BLE001 other people's code: whatever it raises is told.
            queries.pop(point.name, None)
            broken[point.name] = f"{type(error).__name__}: {error}"
            _LOG.error("query type %s of %s: %s", point.name, point.value, broken[point.name])
        else:
            queries[point.name] = query
    return Extensions(queries, broken)


def _load(point: EntryPoint, taken: Collection[str]) -> QueryType:
    if point.name in taken:
        raise ValueError("the name is taken, by a built-in query or by another package")
    query: QueryType = point.load()
    if not callable(query):
        raise TypeError(f"{point.value} cannot be called")
    return query
