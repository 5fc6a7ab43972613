"""Plans requests for rows of Window and Session stores, by keys and times. Pure.

Windows are selected by their start, sessions by their end and start. Every bound is inclusive, as
Kafka's are. No window starts and no session ends before 1970, so an earlier lower bound has no
effect, as in Kafka.
"""

import hashlib
from dataclasses import dataclass, replace
from typing import assert_never

from qss_core.errors import MalformedRequestError, RangeReversedError, UnknownQueryTypeError
from qss_core.formats.timed_keys import TIME_MAX, encode_session_key, encode_window_key
from qss_core.formats.values import Format
from qss_core.model import StoreType
from qss_core.queries.parameters import order_of
from qss_core.queries.timed_parameters import OrderBy, order_by_of, time_parameter, times_of
from qss_core.queries.types import (
    Order,
    SessionQuery,
    TimestampedWindowKeyWithHeadersQuery,
    TimestampedWindowRangeWithHeadersQuery,
    WindowKeyQuery,
    WindowQuery,
    WindowRangeQuery,
)
from qss_core.times import Times, time_of_json
from qss_store.reads.codec import BARE, FULL, TIMESTAMPED, Codec, Shape
from qss_store.reads.plans.keys import PointPlan, check_type, key_of_json, key_of_text

_DIGEST_BYTES = 8
_WITH_HEADERS = (Format.TimestampedWithHeaders, Format.PlainWithHeaders)
_WITH_TIMESTAMPS = (Format.Timestamped, Format.TimestampedWithHeaders)


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedPlan:
    """Rows by key and time; a row's time is its window's start, or its session's end.

    Keys and times are inclusive, and a key of None is open. `start_from` and `start_to` are for
    sessions. Rows are ordered by row key, or with `by_time` by time first. `times` is the
    representation of times in answers.
    """

    type: StoreType
    key_from: bytes | None
    key_to: bytes | None
    earliest: int
    latest: int
    start_from: int = 0
    start_to: int = TIME_MAX
    reverse: bool
    by_time: bool = False
    shape: Shape
    times: Times = Times.MILLIS

    @property
    def digest(self) -> bytes:
        """A digest of the query; a cursor with another digest is refused."""
        hasher = hashlib.blake2b(digest_size=_DIGEST_BYTES)
        for bound in (self.key_from, self.key_to):
            length = -1 if bound is None else len(bound)
            hasher.update(length.to_bytes(8, "big", signed=True))
            hasher.update(bound or b"")
        for time in (self.earliest, self.latest, self.start_from, self.start_to):
            hasher.update(time.to_bytes(8, "big", signed=True))
        hasher.update(self.type.encode())
        # The digest omits the shape: a scan continues after the store's format has changed.
        hasher.update(bytes((self.reverse, self.by_time)))
        return hasher.digest()


# --- GET


def plan_windows(parameters: dict[str, str], codec: Codec, key: bytes | None = None) -> TimedPlan:
    """The plan of `GET /state/windows`: of one key, or with `keyFrom` and `keyTo`."""
    check_type(codec, StoreType.WINDOW)
    keys = _keys_of_text(parameters, codec) if key is None else (key, key)
    first, last = (time_parameter(name, parameters) for name in ("from", "to"))
    plan = _windows(keys, first, last, codec.shape)
    return _with_order(plan, parameters)


def plan_sessions(parameters: dict[str, str], codec: Codec, key: bytes | None = None) -> TimedPlan:
    """The plan of `GET /state/sessions`: of one key, or with `keyFrom` and `keyTo`."""
    check_type(codec, StoreType.SESSION)
    keys = _keys_of_text(parameters, codec) if key is None else (key, key)
    end_from, start_to = (time_parameter(name, parameters) for name in ("endFrom", "startTo"))
    return _with_order(_sessions(keys, end_from, start_to, codec.shape), parameters)


def plan_window(parameters: dict[str, str], codec: Codec, key: bytes) -> PointPlan:
    """The window of a key that starts at `start` (Kafka's fetch of a key and a time)."""
    check_type(codec, StoreType.WINDOW)
    _check_alone(parameters, ("start",), ("from", "to"))
    if codec.retain_duplicates:
        raise UnknownQueryTypeError(
            f"store {codec.name} retains duplicates: a window has many rows, so give its start "
            "as from and as to"
        )
    start = time_parameter("start", parameters)
    assert start is not None, "a plan of one window has its start"
    return PointPlan(encode_window_key(key, start), codec.shape)


def plan_session(parameters: dict[str, str], codec: Codec, key: bytes) -> PointPlan:
    """The session of a key with exactly these bounds (Kafka's fetchSession)."""
    check_type(codec, StoreType.SESSION)
    _check_alone(parameters, ("start", "end"), ("endFrom", "startTo"))
    start, end = (time_parameter(name, parameters) for name in ("start", "end"))
    if start is None or end is None:
        raise MalformedRequestError("start and end together name a session: give both, or none")
    return PointPlan(encode_session_key(key, start, end), codec.shape)


def _check_alone(
    parameters: dict[str, str], exact: tuple[str, ...], bounds: tuple[str, ...]
) -> None:
    beside = [name for name in (*bounds, "order", "limit", "cursor") if name in parameters]
    if beside:
        name = "names" if len(exact) == 1 else "name"
        raise MalformedRequestError(f"{' and '.join(exact)} {name} one row: leave out {beside[0]}")


def _keys_of_text(parameters: dict[str, str], codec: Codec) -> tuple[bytes | None, bytes | None]:
    lower, upper = (
        key_of_text(parameters[name], codec) if name in parameters else None
        for name in ("keyFrom", "keyTo")
    )
    return lower, upper


def _with_order(plan: TimedPlan, parameters: dict[str, str]) -> TimedPlan:
    return replace(
        plan,
        reverse=order_of(parameters) is Order.DESCENDING,
        by_time=order_by_of(parameters) is OrderBy.TIME,
        times=times_of(parameters),
    )


# --- IQv2


def plan_window_query(query: WindowQuery, codec: Codec, times: Times) -> TimedPlan:
    """The plan of a Kafka window query. Raises UnknownQueryTypeError where Kafka fails."""
    match query:
        case WindowKeyQuery() | TimestampedWindowKeyWithHeadersQuery():
            check_type(codec, StoreType.WINDOW)
            shape = _shape_of(query, codec)
            key = key_of_json(query.key, codec)
            plan = _windows((key, key), *_times_of(query), shape)
        case WindowRangeQuery() | TimestampedWindowRangeWithHeadersQuery():
            plan = _plan_range(query, codec)
        case _:
            assert_never(query)
    return replace(plan, times=times)


def _plan_range(
    query: WindowRangeQuery | TimestampedWindowRangeWithHeadersQuery, codec: Codec
) -> TimedPlan:
    name = type(query).__name__
    has_times = query.time_from is not None or query.time_to is not None
    if has_times is (query.key is not None):
        raise MalformedRequestError(f"{name}: give key, or timeFrom and timeTo, not both")
    if has_times:
        _check_form(name, codec, StoreType.WINDOW, "timeFrom and timeTo")
        return _windows((None, None), *_times_of(query), _shape_of(query, codec))
    _check_form(name, codec, StoreType.SESSION, "a key")
    shape = _shape_of(query, codec)
    key = key_of_json(query.key, codec)
    return _sessions((key, key), None, None, shape)


def _check_form(name: str, codec: Codec, wanted: StoreType, form: str) -> None:
    if codec.type is not wanted:
        raise UnknownQueryTypeError(
            f"{name} with {form} is for {wanted} stores; {codec.name} is a {codec.type} store"
        )


def _shape_of(query: WindowQuery, codec: Codec) -> Shape:
    """Kafka's members: timestamps if the format keeps them; a session's timestamp is its end."""
    if isinstance(
        query, TimestampedWindowKeyWithHeadersQuery | TimestampedWindowRangeWithHeadersQuery
    ):
        if codec.format not in _WITH_HEADERS:
            raise UnknownQueryTypeError(
                f"{type(query).__name__} asks for more than the format {codec.format} of store "
                f"{codec.name} keeps"
            )
        return FULL
    return TIMESTAMPED if codec.format in _WITH_TIMESTAMPS else BARE


def _times_of(query: WindowQuery) -> tuple[int, int]:
    """The bounds of the time, both of which Kafka requires."""
    if query.time_from is None or query.time_to is None:
        raise MalformedRequestError(f"{type(query).__name__} needs timeFrom and timeTo")
    first = time_of_json("timeFrom", query.time_from)
    return first, time_of_json("timeTo", query.time_to)


def plan_session_query(query: SessionQuery, codec: Codec, times: Times) -> TimedPlan:
    """The plan of a SessionQuery, which Kafka does not have; it always answers rows."""
    check_type(codec, StoreType.SESSION)
    if query.key is not None and (query.key_from is not None or query.key_to is not None):
        raise MalformedRequestError("SessionQuery: give key, or keyFrom and keyTo, not both")
    if query.key is not None:
        key = key_of_json(query.key, codec)
        keys: tuple[bytes | None, bytes | None] = (key, key)
    else:
        lower = None if query.key_from is None else key_of_json(query.key_from, codec)
        keys = lower, None if query.key_to is None else key_of_json(query.key_to, codec)
    if query.start is not None or query.end is not None:
        plan = _exact_session(query, keys, codec)
    else:
        end_from, start_to = (
            None if obj is None else time_of_json(name, obj)
            for name, obj in (("endFrom", query.end_from), ("startTo", query.start_to))
        )
        plan = _sessions(keys, end_from, start_to, codec.shape)
    return replace(plan, reverse=query.order is Order.DESCENDING, times=times)


def _exact_session(
    query: SessionQuery, keys: tuple[bytes | None, bytes | None], codec: Codec
) -> TimedPlan:
    if query.start is None or query.end is None or query.key is None:
        raise MalformedRequestError("key, start and end name one session: give all three")
    if query.end_from is not None or query.start_to is not None:
        raise MalformedRequestError("start and end name one session: omit endFrom and startTo")
    start, end = time_of_json("start", query.start), time_of_json("end", query.end)
    assert keys[0] is not None, "its key was checked"
    encode_session_key(keys[0], start, end)  # Raises for bounds that no session has.
    plan = _sessions(keys, end, start, codec.shape)
    return replace(plan, latest=end, start_from=start)


# --- Both


def _windows(
    keys: tuple[bytes | None, bytes | None], first: int | None, last: int | None, shape: Shape
) -> TimedPlan:
    _check_keys(keys)
    if first is not None and last is not None and first > last:
        raise RangeReversedError(
            f"the first time, {first}, lies after the last one, {last}: exchange the two; for the "
            "reverse order say DESCENDING"
        )
    return TimedPlan(
        type=StoreType.WINDOW,
        key_from=keys[0],
        key_to=keys[1],
        earliest=max(0, first or 0),
        latest=TIME_MAX if last is None else last,
        reverse=False,
        shape=shape,
    )


def _sessions(
    keys: tuple[bytes | None, bytes | None],
    end_from: int | None,
    start_to: int | None,
    shape: Shape,
) -> TimedPlan:
    _check_keys(keys)
    if start_to is not None and start_to < 0:
        raise MalformedRequestError(f"startTo: no session starts before 1970, at {start_to}")
    return TimedPlan(
        type=StoreType.SESSION,
        key_from=keys[0],
        key_to=keys[1],
        earliest=max(0, end_from or 0),
        latest=TIME_MAX,
        start_to=TIME_MAX if start_to is None else start_to,
        reverse=False,
        shape=shape,
    )


def _check_keys(keys: tuple[bytes | None, bytes | None]) -> None:
    if keys[0] is not None and keys[1] is not None and keys[0] > keys[1]:
        raise RangeReversedError(
            "the first key lies above the last one: exchange the two. Keys are ordered by their "
            "serialized bytes (negative numbers come after positive ones); for the reverse order "
            "say DESCENDING"
        )
