"""Times as text: parsing and printing."""

import pytest

from qss_core.errors import MalformedRequestError
from qss_core.formats.timed_keys import TIME_MAX
from qss_core.times import Times, time_of_json, time_of_text, time_text, time_writer


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("0", 0),
        ("1380000000000", 1_380_000_000_000),
        ("-5", -5),
        (str(TIME_MAX), TIME_MAX),
        ("1970-01-01T00:00:00Z", 0),
        ("2024-05-05", 1_714_867_200_000),
        ("2013-01-01T05:00:00Z", 1_357_016_400_000),
        ("2013-01-01t05:00:00z", 1_357_016_400_000),
        ("2013-01-01T06:00:00+01:00", 1_357_016_400_000),
        ("2013-01-01T00:00:00-05:00", 1_357_016_400_000),
        ("2013-01-01T05:00:00.5Z", 1_357_016_400_500),
        ("2013-01-01T05:00:00.123999999Z", 1_357_016_400_123),
        ("1969-12-31T23:59:59.999Z", -1),
        ("9999-12-31T23:59:59.999Z", 253_402_300_799_999),
    ],
)
def test_a_time_is_milliseconds_rfc_3339_or_a_date(text: str, time: int) -> None:
    assert time_of_text("from", text) == time
    assert time_of_json("from", text) == time


@pytest.mark.parametrize(
    "text",
    [
        "",
        "now",
        "1.5",
        "1e3",
        "+1",
        "2013-01-01T05:00:00",
        "2013-01-01T05:00Z",
        "2013-13-01T05:00:00Z",
        "2013-02-30T05:00:00Z",
        "2013-02-30",
        "2013-1-1",
        "2013-01-01Z",
        "2013-01-01T24:00:01Z",
        "2013-01-01T05:00:61Z",
        "2013-01-01T06:00:00 01:00",
        "2013-01-01T06:00:00+25:00",
        "9223372036854775808",
        "\u0661\u0662",
    ],
)
def test_what_is_no_time_is_refused_by_its_name(text: str) -> None:
    with pytest.raises(MalformedRequestError, match="startTo"):
        time_of_text("startTo", text)


@pytest.mark.parametrize("obj", [True, 1.5, [1], {"ms": 1}, None, 2**63])
def test_what_is_no_time_in_a_body_is_refused(obj: object) -> None:
    with pytest.raises(MalformedRequestError, match="timeFrom"):
        time_of_json("timeFrom", obj)
    assert time_of_json("timeFrom", 7) == 7


def test_times_are_shown_as_the_reader_chooses() -> None:
    millis, rfc3339 = time_writer(Times.MILLIS), time_writer(Times.RFC3339)
    assert millis(1_357_016_400_000) == b"1357016400000"
    assert rfc3339(1_357_016_400_000) == b'"2013-01-01T05:00:00Z"'
    assert rfc3339(1_357_016_400_007) == b'"2013-01-01T05:00:00.007Z"'
    assert time_of_text("t", time_text(1_357_016_400_007) or "") == 1_357_016_400_007


@pytest.mark.parametrize("time", [-1, 253_402_300_800_000, TIME_MAX])
def test_what_rfc_3339_cannot_say_stays_a_number(time: int) -> None:
    assert time_writer(Times.RFC3339)(time) == b"%d" % time
