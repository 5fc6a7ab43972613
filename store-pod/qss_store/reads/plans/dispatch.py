"""Makes the plan of an IQv2 query, by the type of the store."""

from qss_core.errors import MalformedRequestError, UnknownQueryTypeError
from qss_core.model import StoreType
from qss_core.queries.types import (
    CountQuery,
    IndexQuery,
    KeyValueQuery,
    MultiVersionedKeyQuery,
    Query,
    SessionQuery,
    TimestampedWindowKeyWithHeadersQuery,
    TimestampedWindowRangeWithHeadersQuery,
    VersionedKeyQuery,
    WindowKeyQuery,
    WindowRangeQuery,
)
from qss_core.times import Times
from qss_store.reads.codec import Codec
from qss_store.reads.plans.indexes import IndexPlan, plan_index_query
from qss_store.reads.plans.keys import (
    INSTEAD,
    CountPlan,
    Plan,
    ScanPlan,
    VersionPlan,
    check_type,
    plan_query,
)
from qss_store.reads.plans.times import TimedPlan, plan_session_query, plan_window_query
from qss_store.reads.plans.versions import plan_version_query

RowsPlan = ScanPlan | TimedPlan | IndexPlan  # Plans with rows in order, and cursors.
QueryPlan = Plan | TimedPlan | IndexPlan
_WITH_TIME = (StoreType.WINDOW, StoreType.SESSION)
_COUNTED = (*_WITH_TIME, StoreType.VERSIONED)
# The types of stores that answer a query, as in Kafka. A query without an entry is for KeyValue
# stores.
_SERVED_BY: dict[type[Query], tuple[StoreType, ...]] = {
    CountQuery: (StoreType.KEY_VALUE, *_COUNTED),
    WindowKeyQuery: (StoreType.WINDOW,),
    TimestampedWindowKeyWithHeadersQuery: (StoreType.WINDOW,),
    WindowRangeQuery: _WITH_TIME,
    TimestampedWindowRangeWithHeadersQuery: _WITH_TIME,
    SessionQuery: (StoreType.SESSION,),
    VersionedKeyQuery: (StoreType.VERSIONED,),
    MultiVersionedKeyQuery: (StoreType.VERSIONED,),
}


def plan_of(query: Query, codec: Codec, times: Times | None = None) -> QueryPlan:
    """The plan. Raises UnknownQueryTypeError if the store's type does not answer the query."""
    served_by = _SERVED_BY.get(type(query), (StoreType.KEY_VALUE,))
    if codec.type not in served_by:
        raise UnknownQueryTypeError(
            f"{type(query).__name__} is for {' and '.join(served_by)} stores; {codec.name} is a "
            f"{codec.type} store{INSTEAD.get(codec.type, '')}"
        )
    if isinstance(query, CountQuery) and codec.type in _COUNTED:
        plan: QueryPlan = CountPlan(query.exact)
    elif isinstance(query, IndexQuery):
        plan = plan_index_query(query, codec)
    elif isinstance(query, SessionQuery):
        plan = plan_session_query(query, codec, times or Times.MILLIS)
    elif isinstance(query, VersionedKeyQuery | MultiVersionedKeyQuery):
        plan = plan_version_query(query, codec, times or Times.MILLIS)
    elif isinstance(query, KeyValueQuery):
        plan = plan_query(query, codec)
    else:
        plan = plan_window_query(query, codec, times or Times.MILLIS)
    if times is not None and not isinstance(plan, TimedPlan | VersionPlan):
        raise MalformedRequestError(
            "the member times is only for queries of windows, sessions and versions: leave it out"
        )
    return plan


def check_countable(codec: Codec) -> None:
    """Raises UnknownQueryTypeError for a type of store without counts."""
    if codec.type not in _COUNTED:
        check_type(codec)
