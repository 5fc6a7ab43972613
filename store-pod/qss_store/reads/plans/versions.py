"""Plans requests for one version of a key, or for its history. Pure.

All bounds are inclusive. Without an order the newest version comes first, as in Kafka.
"""

from qss_core.errors import MalformedRequestError, RangeReversedError
from qss_core.formats.timed_keys import STILL_VALID
from qss_core.model import StoreType
from qss_core.queries.parameters import order_of
from qss_core.queries.timed_parameters import HISTORY, time_parameter, times_of
from qss_core.queries.types import MultiVersionedKeyQuery, Order, VersionedKeyQuery
from qss_core.times import Times, time_of_json
from qss_store.reads.codec import Codec
from qss_store.reads.plans.keys import VersionPlan, check_type, key_of_json
from qss_store.reads.plans.times import TimedPlan


def plan_versions(parameters: dict[str, str], codec: Codec, key: bytes) -> VersionPlan | TimedPlan:
    """The plan of `GET /state/versions`: a history, if a parameter of a history is given."""
    check_type(codec, StoreType.VERSIONED)
    asked = [name for name in HISTORY if name in parameters]
    if not asked:
        return VersionPlan(key, time_parameter("asOf", parameters), times_of(parameters))
    if "asOf" in parameters:
        raise MalformedRequestError(f"asOf is for one version: leave out {asked[0]}")
    first, last = (time_parameter(name, parameters) for name in ("from", "to"))
    return _history(key, (first, last), order_of(parameters), times_of(parameters), codec)


def plan_version_query(
    query: VersionedKeyQuery | MultiVersionedKeyQuery, codec: Codec, times: Times
) -> VersionPlan | TimedPlan:
    """The plan of a Kafka query of versions."""
    check_type(codec, StoreType.VERSIONED)
    key = key_of_json(query.key, codec)
    if isinstance(query, VersionedKeyQuery):
        as_of = query.as_of_timestamp
        return VersionPlan(
            key, None if as_of is None else time_of_json("asOfTimestamp", as_of), times
        )
    first, last = (
        None if obj is None else time_of_json(name, obj)
        for name, obj in (("fromTime", query.from_time), ("toTime", query.to_time))
    )
    return _history(key, (first, last), query.order, times, codec)


def _history(
    key: bytes, bounds: tuple[int | None, int | None], order: Order, times: Times, codec: Codec
) -> TimedPlan:
    """Versions that were valid at some time in [first, last], so they end after the first."""
    first, last = bounds
    if first is not None and last is not None and first > last:
        raise RangeReversedError(
            f"the first time, {first}, lies after the last one, {last}; for the reverse order say "
            "ASCENDING or DESCENDING"
        )
    return TimedPlan(
        type=StoreType.VERSIONED,
        key_from=key,
        key_to=key,
        earliest=0 if first is None else min(max(first + 1, 0), STILL_VALID),
        latest=STILL_VALID,
        start_to=STILL_VALID if last is None else last,
        reverse=order is not Order.ASCENDING,
        shape=codec.shape,
        times=times,
    )
