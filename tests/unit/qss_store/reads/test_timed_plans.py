"""The plans of requests for windows and sessions."""

from typing import Any

import msgspec
import pytest

from qss_core.errors import (
    MalformedRequestError,
    NullKeyError,
    RangeReversedError,
    StoreError,
    UnknownQueryTypeError,
)
from qss_core.formats.timed_keys import TIME_MAX
from qss_core.model import StoreType
from qss_core.queries.types import decode_query
from qss_core.times import Times
from qss_store.reads.codec import BARE, FULL, TIMESTAMPED, Codec, Shape, codec_of
from qss_store.reads.plans.dispatch import QueryPlan, plan_of
from qss_store.reads.plans.keys import CountPlan
from qss_store.reads.plans.times import (
    TimedPlan,
    plan_session,
    plan_sessions,
    plan_window,
    plan_windows,
)
from qss_testing.pods.stores import make_definition

FORMATS = ("Plain", "Timestamped", "TimestampedWithHeaders", "PlainWithHeaders")


def windows(store_format: str = "Timestamped", **members: Any) -> Codec:
    return codec_of(
        make_definition(
            type=StoreType.WINDOW,
            format=store_format,
            retention_ms=3_600_000,
            window_size_ms=60_000,
            **members,
        )
    )


def sessions(store_format: str = "Plain", **members: Any) -> Codec:
    return codec_of(
        make_definition(
            type=StoreType.SESSION,
            format=store_format,
            retention_ms=3_600_000,
            session_gap_ms=60_000,
            **members,
        )
    )


def plan(codec: Codec, kind: str, **members: Any) -> QueryPlan:
    query = decode_query(msgspec.Raw(msgspec.json.encode({"type": kind, **members})))
    return plan_of(query, codec)


def timed(codec: Codec, kind: str, **members: Any) -> TimedPlan:
    found = plan(codec, kind, **members)
    assert isinstance(found, TimedPlan)
    return found


# --- GET


def test_windows_without_bounds_are_all() -> None:
    assert plan_windows({}, windows()) == TimedPlan(
        type=StoreType.WINDOW,
        key_from=None,
        key_to=None,
        earliest=0,
        latest=TIME_MAX,
        reverse=False,
        shape=TIMESTAMPED,
    )


def test_windows_by_time_and_keys() -> None:
    found = plan_windows(
        {"from": "1000", "to": "1970-01-01T00:00:02Z", "keyFrom": "a", "keyTo": "b"}, windows()
    )
    assert (found.earliest, found.latest) == (1000, 2000)
    assert (found.key_from, found.key_to) == (b"a", b"b")
    of_key = plan_windows({"order": "DESCENDING", "times": "rfc3339"}, windows(), b"k")
    assert (of_key.key_from, of_key.key_to) == (b"k", b"k")
    assert (of_key.reverse, of_key.times) == (True, Times.RFC3339)
    assert plan_windows({"orderBy": "time"}, windows()).by_time


def test_times_before_1970_are_clamped_as_kafkas() -> None:
    assert plan_windows({"from": "-5", "to": "7"}, windows()).earliest == 0
    nothing = plan_windows({"from": "-5", "to": "-2"}, windows())
    assert nothing.earliest > nothing.latest
    assert plan_sessions({"endFrom": "-5"}, sessions()).earliest == 0


def test_ranges_upside_down_are_refused() -> None:
    with pytest.raises(RangeReversedError):
        plan_windows({"from": "2", "to": "1"}, windows())
    with pytest.raises(RangeReversedError):
        plan_windows({"keyFrom": "b", "keyTo": "a"}, windows())
    with pytest.raises(RangeReversedError, match="negative"):
        plan_sessions({"keyFrom": "-1", "keyTo": "1"}, sessions(key_serde="int64"))


def test_sessions_find_what_kafka_finds() -> None:
    # A session that ends late and begins early meets both bounds, so no order of them is wrong.
    found = plan_sessions({"endFrom": "1500", "startTo": "1000"}, sessions(), b"a")
    assert (found.earliest, found.latest) == (1500, TIME_MAX)
    assert (found.start_from, found.start_to) == (0, 1000)
    with pytest.raises(MalformedRequestError, match="startTo"):
        plan_sessions({"startTo": "-1"}, sessions())


def test_one_row_is_named_by_its_whole_row_key() -> None:
    window = plan_window({"start": "1000"}, windows(), b"a")
    assert window.key.hex() == "6100000000000003e800000000"
    session = plan_session({"start": "1000", "end": "2000"}, sessions(), b"a")
    assert session.key.hex() == "6100000000000007d000000000000003e8"


@pytest.mark.parametrize(
    ("parameters", "word"),
    [
        ({"start": "1", "end": "2", "endFrom": "1"}, "endFrom"),
        ({"start": "1", "end": "2", "limit": "1"}, "limit"),
        ({"start": "1"}, "both"),
        ({"end": "1"}, "both"),
        ({"start": "2", "end": "1"}, "not before"),
        ({"start": "x", "end": "1"}, "start"),
    ],
)
def test_bounds_that_name_no_session_are_refused(parameters: dict[str, str], word: str) -> None:
    with pytest.raises(MalformedRequestError, match=word):
        plan_session(parameters, sessions(), b"a")


def test_one_window_of_many_rows_cannot_be_asked_for() -> None:
    with pytest.raises(UnknownQueryTypeError, match="from"):
        plan_window({"start": "1"}, windows(retain_duplicates=True), b"a")
    with pytest.raises(MalformedRequestError, match="to"):
        plan_window({"start": "1", "to": "2"}, windows(), b"a")


def test_another_store_says_what_to_ask_it() -> None:
    with pytest.raises(UnknownQueryTypeError, match="/state/sessions"):
        plan_windows({}, sessions())
    with pytest.raises(UnknownQueryTypeError, match="/state/windows"):
        plan_sessions({}, windows())


# --- IQv2: each type on each store and format answers rows, or refuses.

TIMES = {"timeFrom": 0, "timeTo": 9}
REFUSED = None
BY_TYPE: list[tuple[str, dict[str, Any], dict[str, Shape | None], dict[str, Shape | None]]] = [
    (
        "WindowKeyQuery",
        {"key": "a", **TIMES},
        dict(zip(FORMATS, (BARE, TIMESTAMPED, TIMESTAMPED, BARE), strict=True)),
        {},
    ),
    (
        "WindowRangeQuery",
        TIMES,
        dict(zip(FORMATS, (BARE, TIMESTAMPED, TIMESTAMPED, BARE), strict=True)),
        {},
    ),
    ("WindowRangeQuery", {"key": "a"}, {}, {"Plain": BARE, "PlainWithHeaders": BARE}),
    (
        "TimestampedWindowKeyWithHeadersQuery",
        {"key": "a", **TIMES},
        {"TimestampedWithHeaders": FULL, "PlainWithHeaders": FULL},
        {},
    ),
    (
        "TimestampedWindowRangeWithHeadersQuery",
        TIMES,
        {"TimestampedWithHeaders": FULL, "PlainWithHeaders": FULL},
        {},
    ),
    ("TimestampedWindowRangeWithHeadersQuery", {"key": "a"}, {}, {"PlainWithHeaders": FULL}),
    (
        "SessionQuery",
        {"key": "a"},
        {},
        {"Plain": BARE, "PlainWithHeaders": Shape(timestamp=False, headers=True)},
    ),
    ("KeyQuery", {"key": "a"}, {}, {}),
    ("RangeQuery", {}, {}, {}),
    ("TimestampedKeyQuery", {"key": "a"}, {}, {}),
    ("PrefixQuery", {"prefix": "a"}, {}, {}),
]


@pytest.mark.parametrize("store_format", FORMATS)
@pytest.mark.parametrize(("kind", "members", "of_windows", "of_sessions"), BY_TYPE)
def test_each_query_type_on_each_store(
    kind: str,
    members: dict[str, Any],
    of_windows: dict[str, Shape | None],
    of_sessions: dict[str, Shape | None],
    store_format: str,
) -> None:
    for make, wanted in ((windows, of_windows), (sessions, of_sessions)):
        if make is sessions and store_format not in ("Plain", "PlainWithHeaders"):
            continue
        codec = make(store_format)
        if store_format in wanted:
            assert timed(codec, kind, **members).shape == wanted[store_format]
        else:
            with pytest.raises(UnknownQueryTypeError, match=kind):
                plan(codec, kind, **members)


@pytest.mark.parametrize("kind", ["WindowKeyQuery", "WindowRangeQuery", "SessionQuery"])
def test_key_value_stores_answer_none_of_them(kind: str) -> None:
    with pytest.raises(UnknownQueryTypeError, match=kind):
        plan(codec_of(make_definition()), kind, key="a", **({} if kind[0] == "S" else TIMES))


def test_all_stores_with_rows_are_counted() -> None:
    for codec in (windows(), sessions(), codec_of(make_definition())):
        assert plan(codec, "CountQuery") == CountPlan()


def test_members_say_what_they_say_in_kafka() -> None:
    found = timed(windows(), "WindowKeyQuery", key="a", timeFrom=-1, timeTo="1970-01-01T00:00:01Z")
    assert (found.key_from, found.key_to) == (b"a", b"a")
    assert (found.earliest, found.latest) == (0, 1000)
    everything = timed(sessions(), "WindowRangeQuery", key="a")
    assert (everything.earliest, everything.start_to) == (0, TIME_MAX)


def test_session_query_is_of_a_key_of_keys_or_of_one() -> None:
    of_keys = timed(
        sessions(), "SessionQuery", keyFrom="a", endFrom=5, startTo=9, order="DESCENDING"
    )
    assert (of_keys.key_from, of_keys.key_to) == (b"a", None)
    assert (of_keys.earliest, of_keys.start_to, of_keys.reverse) == (5, 9, True)
    one = timed(sessions(), "SessionQuery", key="a", start=5, end=9)
    assert (one.earliest, one.latest, one.start_from, one.start_to) == (9, 9, 5, 5)


@pytest.mark.parametrize(
    ("codec", "kind", "members", "error"),
    [
        (windows(), "WindowKeyQuery", TIMES, NullKeyError),
        (windows(), "WindowKeyQuery", {"key": "a"}, MalformedRequestError),
        (windows(), "WindowKeyQuery", {"key": "a", "timeFrom": 1}, MalformedRequestError),
        (windows(), "WindowKeyQuery", {"key": 1, **TIMES}, MalformedRequestError),
        (windows(), "WindowKeyQuery", {"key": "a", **TIMES, "order": "ANY"}, MalformedRequestError),
        (windows(), "WindowKeyQuery", {"key": "a", "timeFrom": 9, "timeTo": 0}, RangeReversedError),
        (windows(), "WindowRangeQuery", {}, MalformedRequestError),
        (windows(), "WindowRangeQuery", {"key": "a", **TIMES}, MalformedRequestError),
        (windows(), "WindowRangeQuery", {"timeFrom": 1}, MalformedRequestError),
        (windows(), "WindowRangeQuery", {"key": "a"}, UnknownQueryTypeError),
        (sessions(), "WindowRangeQuery", TIMES, UnknownQueryTypeError),
        (sessions(), "SessionQuery", {"key": "a", "keyTo": "b"}, MalformedRequestError),
        (sessions(), "SessionQuery", {"key": "a", "start": 1}, MalformedRequestError),
        (sessions(), "SessionQuery", {"start": 1, "end": 2}, MalformedRequestError),
        (sessions(), "SessionQuery", {"key": "a", "start": 3, "end": 2}, MalformedRequestError),
        (
            sessions(),
            "SessionQuery",
            {"key": "a", "start": 1, "end": 2, "endFrom": 1},
            MalformedRequestError,
        ),
        (sessions(), "SessionQuery", {"keyFrom": "b", "keyTo": "a"}, RangeReversedError),
        (sessions(), "SessionQuery", {"startTo": -1}, MalformedRequestError),
        (sessions(), "SessionQuery", {"endFrom": "soon"}, MalformedRequestError),
    ],
)
def test_what_cannot_be_asked_is_refused(
    codec: Codec, kind: str, members: dict[str, Any], error: type[StoreError]
) -> None:
    with pytest.raises(error):
        plan(codec, kind, **members)


def test_times_are_for_rows_that_have_some() -> None:
    query = decode_query(msgspec.Raw(b'{"type":"KeyQuery","key":"a"}'))
    with pytest.raises(MalformedRequestError, match="times"):
        plan_of(query, codec_of(make_definition()), Times.RFC3339)


def test_a_cursor_is_for_one_plan_but_for_any_way_to_show_its_times() -> None:
    plans = [
        plan_windows(parameters, windows())
        for parameters in (
            {},
            {"from": "1"},
            {"to": "1"},
            {"keyFrom": "a"},
            {"keyTo": "a"},
            {"order": "DESCENDING"},
            {"orderBy": "time"},
        )
    ]
    assert len({one.digest for one in plans}) == len(plans)
    assert plan_windows({"times": "rfc3339"}, windows()).digest == plans[0].digest
    assert plan_sessions({}, sessions()).digest != plan_windows({}, windows("Plain")).digest
