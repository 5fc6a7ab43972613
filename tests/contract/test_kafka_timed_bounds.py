"""Bounds of scans of windows and sessions, compared with Kafka Streams 4.3.0.

For one key the bounds are Kafka's bytes. For a range of keys the lower bound is Kafka's. Kafka's
upper bound misses rows of the range if one key is a prefix of another key; ours does not.
"""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qss_core.formats.timed_keys import TIME_MAX, encode_session_key, encode_window_key
from qss_core.model import StoreType
from qss_store.reads.codec import BARE
from qss_store.reads.plans.times import TimedPlan
from qss_store.reads.scans.time_bounds import Bounds, make_filter, row_bounds

VECTORS = json.loads((Path(__file__).parent / "kafka-vectors.json").read_text())


def vectors(kind: str) -> list[Any]:
    found = [
        pytest.param(one["input"], bytes.fromhex(one["hex"]), id=str(one["input"]))
        for one in VECTORS
        if one["kind"] == kind
    ]
    assert found
    return found


def windows(
    keys: tuple[bytes | None, bytes | None], first: int = 0, last: int = TIME_MAX
) -> TimedPlan:
    return TimedPlan(
        type=StoreType.WINDOW,
        key_from=keys[0],
        key_to=keys[1],
        earliest=max(0, first),
        latest=last,
        reverse=False,
        shape=BARE,
    )


def sessions(
    keys: tuple[bytes | None, bytes | None], end_from: int = 0, start_to: int = TIME_MAX
) -> TimedPlan:
    return TimedPlan(
        type=StoreType.SESSION,
        key_from=keys[0],
        key_to=keys[1],
        earliest=max(0, end_from),
        latest=TIME_MAX,
        start_to=start_to,
        reverse=False,
        shape=BARE,
    )


def bounds(plan: TimedPlan) -> Bounds:
    found = row_bounds(plan, TIME_MAX)
    assert found is not None
    return found


def key_of(given: dict[str, Any]) -> bytes:
    return bytes.fromhex(given["key_hex"])


@pytest.mark.parametrize(("given", "lower"), vectors("window_bound_fixed_lower"))
def test_the_windows_of_a_key_begin_where_kafkas_do(given: dict[str, Any], lower: bytes) -> None:
    key = key_of(given)
    assert bounds(windows((key, key), first=given["from"]))[0] == lower


@pytest.mark.parametrize(("given", "upper"), vectors("window_bound_fixed_upper"))
def test_the_windows_of_a_key_end_where_kafkas_do(given: dict[str, Any], upper: bytes) -> None:
    key = key_of(given)
    plan = windows((key, key), last=given["to"])
    if given["to"] < 0:  # Kafka's bound is then open above; its filter drops every row.
        assert row_bounds(plan, TIME_MAX) is None
        assert not make_filter(plan)(encode_window_key(key, 0))
    else:
        assert bounds(plan)[1] == upper + b"\x00", "ours is exclusive"


@pytest.mark.parametrize(("given", "lower"), vectors("window_bound_range_lower"))
def test_a_range_of_keys_begins_where_kafkas_does(given: dict[str, Any], lower: bytes) -> None:
    assert bounds(windows((key_of(given), None), first=given["from"]))[0] == lower


@pytest.mark.parametrize(("given", "upper"), vectors("window_bound_range_upper"))
def test_a_range_of_keys_ends_nowhere_before_kafkas(given: dict[str, Any], upper: bytes) -> None:
    plan = windows((None, key_of(given)), last=given["to"])
    if given["to"] >= 0:
        found = bounds(plan)[1]
        assert found is not None
        assert found > upper


@pytest.mark.parametrize(("given", "lower"), vectors("session_bound_fixed_lower"))
def test_the_sessions_of_a_key_begin_where_kafkas_do(given: dict[str, Any], lower: bytes) -> None:
    key = key_of(given)
    assert bounds(sessions((key, key), end_from=given["earliest_end"]))[0] == lower


@pytest.mark.parametrize(("given", "upper"), vectors("session_bound_fixed_upper"))
def test_the_sessions_of_a_key_end_where_kafkas_do(given: dict[str, Any], upper: bytes) -> None:
    key = key_of(given)
    plan = sessions((key, key), start_to=given["latest_start"])
    assert bounds(plan)[1] == upper + b"\x00"


@pytest.mark.parametrize(("given", "lower"), vectors("session_bound_range_lower"))
def test_a_range_of_sessions_begins_where_kafkas_does(given: dict[str, Any], lower: bytes) -> None:
    assert bounds(sessions((key_of(given), None), end_from=given["earliest_end"]))[0] == lower


@pytest.mark.parametrize(("given", "upper"), vectors("session_bound_range_upper"))
def test_a_range_of_sessions_ends_nowhere_before_kafkas(
    given: dict[str, Any], upper: bytes
) -> None:
    found = bounds(sessions((None, key_of(given)), start_to=given["latest_start"]))[1]
    assert found is not None
    assert found > upper


def test_the_row_that_kafkas_upper_bound_misses_lies_within_ours() -> None:
    # "a" is a prefix of "a\x00": Kafka's bound for keys up to "a\x00" is 6100 | 07d0 | 7fffffff.
    row = encode_window_key(b"a", 2000)
    kafkas = b"a\x00" + (2000).to_bytes(8, "big") + b"\x7f\xff\xff\xff"
    upper = bounds(windows((b"a", b"a\x00"), last=2000))[1]
    assert upper is not None
    assert kafkas < row < upper


# --- Every row of the answer lies between the bounds, and no other row passes the filter.

KEYS = st.binary(max_size=4).map(
    lambda raw: bytes(b"\x00\x01\x61\x7f\xff"[byte % 5] for byte in raw)
)
TIMES = st.sampled_from([0, 1, 255, 256, 2000, 2**40, 2**56, 2**62, TIME_MAX])


@given(keys=st.tuples(KEYS, KEYS), key=KEYS, first=TIMES, last=TIMES, start=TIMES, stream=TIMES)
def test_windows_that_are_asked_for_lie_between_the_bounds(
    keys: tuple[bytes, bytes], key: bytes, first: int, last: int, start: int, stream: int
) -> None:
    lower, upper = min(keys), max(keys)
    plan = windows((lower, upper), first, last)
    row_key = encode_window_key(key, start)
    is_asked_for = lower <= key <= upper and first <= start <= last
    assert make_filter(plan)(row_key) is is_asked_for
    if is_asked_for and start <= stream:
        check_within(row_key, row_bounds(plan, stream))


@given(
    keys=st.tuples(KEYS, KEYS),
    key=KEYS,
    end_from=TIMES,
    start_to=TIMES,
    times=st.tuples(TIMES, TIMES),
    stream=TIMES,
)
def test_sessions_that_are_asked_for_lie_between_the_bounds(
    keys: tuple[bytes, bytes],
    key: bytes,
    end_from: int,
    start_to: int,
    times: tuple[int, int],
    stream: int,
) -> None:
    lower, upper = min(keys), max(keys)
    start, end = min(times), max(times)
    plan = sessions((lower, upper), end_from, start_to)
    row_key = encode_session_key(key, start, end)
    is_asked_for = lower <= key <= upper and end >= end_from and start <= start_to
    assert make_filter(plan)(row_key) is is_asked_for
    if is_asked_for and end <= stream:
        check_within(row_key, row_bounds(plan, stream))


def check_within(row_key: bytes, found: Bounds | None) -> None:
    assert found is not None
    lower, upper = found
    assert lower is None or lower <= row_key
    assert upper is None or row_key < upper
