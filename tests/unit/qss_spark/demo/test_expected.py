"""The demo's verdict: the rows that a store must hold, and every difference that it finds."""

from collections.abc import Iterator

from qss_core.partitioning import partition_of
from qss_spark.demo.expected import (
    RETENTION_MS,
    delays_of,
    departures_of,
    differences,
    expected_aircraft_stats,
    expected_delays,
    expected_departures,
    expected_flights_weather,
    expected_open_departures,
    expected_rotations,
    open_departures_of,
    rotations_of,
)

EXPECTED = {"a": {"n": 1}, "b": {"n": 2}}


HEADER = [
    *("time_hour", "minute", "origin", "dest", "tailnum", "carrier", "flight"),
    *("distance", "dep_time", "dep_delay", "arr_delay"),
]


def held(**values: int) -> list[tuple[str, object]]:
    return [(key, {"n": value}) for key, value in values.items()]


def flights(*rows: str) -> Iterator[list[str]]:
    """Flights of `time tailnum origin dest delay`; a delay of - is a cancelled flight."""
    yield HEADER
    for number, row in enumerate(rows):
        time, tailnum, origin, dest, delay = row.split()
        hour, minute = time[:-2] + "00:00Z", time[-2:]
        went = ["", ""] if delay == "-" else ["517.0", delay]
        yield [hour, minute, origin, dest, tailnum, "AA", str(number), "100", *went, ""]


def test_every_aircraft_is_expected_with_what_it_flew() -> None:
    expected = expected_aircraft_stats()
    assert len(expected) == 4043
    assert sum(one["flights"] for one in expected.values()) == 334_264
    assert expected["N14228"] == {
        "flights": 111,
        "distance": 171713,
        "mean_arrival_delay": 3.7117117117117115,
    }


def test_equal_rows_are_no_difference() -> None:
    assert differences(EXPECTED, held(b=2, a=1)) == []


def test_a_changed_row_is_found() -> None:
    assert differences(EXPECTED, held(a=1, b=3)) == ["b: is {'n': 3}, should be {'n': 2}"]


def test_a_missing_row_is_found() -> None:
    assert differences(EXPECTED, held(a=1)) == ["b: is missing, should be {'n': 2}"]


def test_a_row_too_many_is_found() -> None:
    assert differences(EXPECTED, held(a=1, b=2, c=3)) == [
        "c: is {'n': 3}, and should not be there (again)"
    ]


def test_a_row_that_comes_twice_is_found() -> None:
    assert differences(EXPECTED, [*held(a=1, b=2), *held(a=1)]) == [
        "a: is {'n': 1}, and should not be there (again)"
    ]


def test_an_empty_store_lacks_everything() -> None:
    assert len(differences(EXPECTED, [])) == 2


# --- Windows and sessions


def test_every_hour_of_an_airport_is_expected_as_long_as_it_is_kept() -> None:
    expected = expected_departures()
    assert len(expected) == 1_663
    assert {key for key, *_ in expected} == {"EWR", "JFK", "LGA"}
    starts = [start for _, start, _ in expected]
    assert max(starts) == 1_388_548_800_000  # 2014-01-01T04:00Z, an evening in New York.
    assert max(starts) - min(starts) < RETENTION_MS + 24 * 3_600_000


def test_an_hour_counts_what_left_and_what_did_not() -> None:
    hours = departures_of(
        flights(
            "2013-01-01T10:05 N1 JFK BOS 4",
            "2013-01-01T10:59 N2 JFK BOS -2",
            "2013-01-01T10:30 N3 JFK BOS -",
            "2013-01-01T11:00 N1 JFK BOS -",
        )
    )
    first = 1_357_034_400_000
    assert hours == {
        ("JFK", first, first + 3_600_000): {
            "departures": 2,
            "cancellations": 1,
            "mean_delay": 1.0,
        },
        ("JFK", first + 3_600_000, first + 7_200_000): {
            "departures": 0,
            "cancellations": 1,
            "mean_delay": None,
        },
    }


def test_an_old_hour_goes_by_the_stream_time_of_its_own_partition() -> None:
    same, other = "EWR", "LGA"
    assert partition_of(same.encode(), 3) != partition_of(other.encode(), 3)
    hours = departures_of(
        flights(
            f"2013-01-01T10:00 N1 {same} BOS 0",
            f"2013-02-01T10:00 N1 {same} BOS 0",
            f"2013-01-01T10:00 N1 {other} BOS 0",
        ),
        partitions=3,
    )
    # The retention is 31 days: a window that is exactly as old is gone.
    kept = sorted((key, start) for key, start, _ in hours)
    assert kept == [(same, 1_359_712_800_000), (other, 1_357_034_400_000)]


def test_an_hour_is_open_until_the_watermark_has_passed_it() -> None:
    hours = open_departures_of(
        flights(
            "2013-01-01T09:59 N1 JFK BOS 0",
            "2013-01-01T10:00 N1 JFK BOS 0",
            "2013-01-03T10:30 N1 LGA BOS 0",
        )
    )
    # The watermark is 2013-01-01T10:00, two days before the start of the newest hour.
    assert [(key, start) for key, start, _ in hours] == [
        ("JFK", 1_357_034_400_000),
        ("LGA", 1_357_034_400_000 + 48 * 3_600_000),
    ]
    assert len(expected_open_departures()) == 108


def test_flights_within_four_hours_are_one_rotation() -> None:
    rotations = rotations_of(
        flights(
            "2013-01-01T14:00 N1 LGA ORD 0",
            "2013-01-01T10:00 N1 JFK BOS 0",
            "2013-01-01T18:01 N1 EWR ATL 0",
            "2013-01-01T12:00 N1 JFK BOS -",
        )
    )
    first = 1_357_034_400_000
    hour = 3_600_000
    assert rotations == {
        ("N1", first, first + 4 * hour): {
            "flights": 2,
            "distance": 200,
            "origin": "JFK",
            "dest": "ORD",
        },
        ("N1", first + 8 * hour + 60_000, first + 8 * hour + 60_000): {
            "flights": 1,
            "distance": 100,
            "origin": "EWR",
            "dest": "ATL",
        },
    }


def test_every_rotation_is_expected_as_long_as_it_is_kept() -> None:
    expected = expected_rotations()
    assert len(expected) == 26_333
    ends = [end for _, _, end in expected]
    assert max(ends) - min(ends) < RETENTION_MS + 24 * 3_600_000


def test_every_flight_meets_the_weather_of_its_hour() -> None:
    expected = expected_flights_weather()
    sizes = {store: len(rows) for store, rows in expected.items()}
    assert sizes == {"hourly-flights": 28_135, "hourly-weather": 2_231, "flights-weather": 28_168}
    flights, weather = expected["hourly-flights"], expected["hourly-weather"]
    sides_kept = 0
    for (key, start, end, (flight, then)), value in expected["flights-weather"].items():
        # The weather ends a day before the flights, so the flights' store has dropped a day more.
        left, right = (key, start, end, (flight,)), (key, start, end, (then,))
        if left in flights and right in weather:
            assert value == flights[left] | weather[right]
            sides_kept += 1
    assert sides_kept > 27_000


def late(*rows: str) -> Iterator[list[str]]:
    """Flights as `flights` makes them, whose delay is that of their arrival."""
    made = flights(*rows)
    header = next(made)
    yield header
    for row in made:
        row[header.index("arr_delay")] = row[header.index("dep_delay")]
        yield row


def test_an_aircraft_has_its_last_late_arrival_and_the_sums_of_each_airport() -> None:
    stores = delays_of(
        late(
            "2013-01-01T12:30 N1 JFK BOS 61",
            "2013-01-01T10:05 N1 JFK BOS 60",  # Earlier, whatever its place in the file.
            "2013-01-01T11:00 N1 LGA ORD 90",
            "2013-01-01T13:00 N1 JFK BOS 59",
            "2013-01-01T14:00 N1 JFK BOS -",
            "2013-01-01T10:00 N2 JFK BOS 5",
        )
    )
    assert stores["delays-last"] == {
        "N1": {
            "departs": "2013-01-01T12:30Z",
            "flight": "AA0",
            "origin": "JFK",
            "dest": "BOS",
            "delay": 61.0,
        }
    }
    assert [one["delay"] for one in stores["delays-recent"]["N1"]] == [60.0, 90.0, 61.0]
    assert stores["delays-airports"] == {
        ("N1", "BOS"): {"flights": 2, "delay": 121.0},
        ("N1", "ORD"): {"flights": 1, "delay": 90.0},
    }


def test_ten_late_arrivals_are_kept() -> None:
    days = [f"2013-01-{day:02d}T10:00 N1 JFK BOS {100 + day}" for day in range(1, 13)]
    (recent,) = delays_of(late(*days))["delays-recent"].values()
    assert [one["delay"] for one in recent] == [100.0 + day for day in range(3, 13)]


def test_every_aircraft_that_was_an_hour_late_is_expected() -> None:
    expected = expected_delays()
    sizes = {store: len(rows) for store, rows in expected.items()}
    assert sizes == {"delays-airports": 16_125, "delays-recent": 3_383, "delays-last": 3_383}
    assert max(map(len, expected["delays-recent"].values())) == 10
