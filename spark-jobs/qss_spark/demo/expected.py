"""Computes the stores' final rows from the same files as a batch, in plain Python."""

import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from typing import Any, Self, TypeVar

from qss_core.partitioning import partition_of
from qss_spark.flights import read_rows, read_weather, with_sources

DIFFERENCES_SHOWN_MAX = 10
# As in departures.yaml and rotations.yaml.
RETENTION_MS = 744 * 3_600_000
PARTITIONS = 12
GAP_MS = 4 * 3_600_000
LATE_MIN = 60  # As in delays.py.
WATERMARK_MS = 48 * 3_600_000  # As in open_departures.py.

Flights = Iterator[list[str]]  # The header comes first.
Expected = Mapping[Any, Any]  # Values by the identity of a store's rows.
_Place = tuple[str, int, int]  # Key, start and end of a window or session.
_AnyPlace = TypeVar("_AnyPlace", bound=tuple[Any, ...])


# --- aircraft-stats


@dataclass(slots=True)
class _Aircraft:
    flights: int = 0
    distance: int = 0
    delay_sum: float = 0.0
    delays: int = 0


def expected_aircraft_stats() -> dict[str, dict[str, Any]]:
    """Value by key of the store aircraft-stats, after all flights."""
    return aircraft_stats_of(read_rows())


def aircraft_stats_of(rows: Flights) -> dict[str, dict[str, Any]]:
    """The values by key after the given flights. Sums of minutes are exact in any order."""
    column = _columns(rows)
    aircraft: dict[str, _Aircraft] = {}
    for row in rows:
        if row[column["tailnum"]]:
            one = aircraft.setdefault(row[column["tailnum"]], _Aircraft())
            one.flights += 1
            one.distance += int(row[column["distance"]])
            if row[column["arr_delay"]]:
                one.delay_sum += float(row[column["arr_delay"]])
                one.delays += 1
    return {
        tailnum: {
            "flights": one.flights,
            "distance": one.distance,
            "mean_arrival_delay": one.delay_sum / one.delays if one.delays else None,
        }
        for tailnum, one in aircraft.items()
    }


# --- departures


@dataclass(slots=True)
class _Hour:
    departures: int = 0
    cancellations: int = 0
    delay_sum: float = 0.0
    delays: int = 0


def expected_departures() -> dict[_Place, dict[str, Any]]:
    """Value by (airport, start, end) of the store departures, after all flights."""
    return departures_of(read_rows())


def departures_of(
    rows: Flights, partitions: int = PARTITIONS, retention_ms: int = RETENTION_MS
) -> dict[_Place, dict[str, Any]]:
    """The values after the given flights, in a store with that many partitions."""
    column = _columns(rows)
    hours: dict[_Place, _Hour] = defaultdict(_Hour)
    for row in rows:
        start = _milliseconds(row[column["time_hour"]])
        hour = hours[row[column["origin"]], start, start + 3_600_000]
        if row[column["dep_time"]]:
            hour.departures += 1
        else:
            hour.cancellations += 1
        if row[column["dep_delay"]]:
            hour.delay_sum += float(row[column["dep_delay"]])
            hour.delays += 1
    values = {
        place: {
            "departures": hour.departures,
            "cancellations": hour.cancellations,
            "mean_delay": hour.delay_sum / hour.delays if hour.delays else None,
        }
        for place, hour in hours.items()
    }
    return _kept(values, {place: place[1] for place in values}, partitions, retention_ms)


# --- open-departures


def expected_open_departures() -> dict[_Place, dict[str, Any]]:
    """Value by (airport, start, end) of the store open-departures, after all flights."""
    return open_departures_of(read_rows())


def open_departures_of(rows: Flights) -> dict[_Place, dict[str, Any]]:
    """The hours that the watermark has not passed after the given flights."""
    hours = departures_of(rows, retention_ms=sys.maxsize)
    watermark = max(start for _, start, _ in hours) - WATERMARK_MS
    return {place: value for place, value in hours.items() if place[2] > watermark}


# --- rotations


@dataclass(slots=True)
class _Flight:
    departs_ms: int
    name: str
    origin: str
    dest: str
    distance: int

    @classmethod
    def of(cls, row: list[str], column: Mapping[str, int]) -> Self:
        hour_ms = _milliseconds(row[column["time_hour"]])
        return cls(
            hour_ms + int(row[column["minute"]]) * 60_000,
            row[column["carrier"]] + row[column["flight"]],
            row[column["origin"]],
            row[column["dest"]],
            int(row[column["distance"]]),
        )


def expected_rotations() -> dict[_Place, dict[str, Any]]:
    """Value by (tail number, start, end) of the store rotations, after all flights."""
    return rotations_of(read_rows())


def rotations_of(rows: Flights, retention_ms: int = RETENTION_MS) -> dict[_Place, dict[str, Any]]:
    """The values after the given flights, in a store with the partitions of the demo."""
    column = _columns(rows)
    by_aircraft: dict[str, list[_Flight]] = defaultdict(list)
    for row in rows:
        if row[column["tailnum"]] and row[column["dep_time"]]:
            by_aircraft[row[column["tailnum"]]].append(_Flight.of(row, column))
    values = {}
    for tailnum, flights in by_aircraft.items():
        flights.sort(key=lambda flight: (flight.departs_ms, flight.name))
        for chain in _chains(flights):
            values[tailnum, chain[0].departs_ms, chain[-1].departs_ms] = {
                "flights": len(chain),
                "distance": sum(flight.distance for flight in chain),
                "origin": chain[0].origin,
                "dest": chain[-1].dest,
            }
    return _kept(values, {place: place[2] for place in values}, PARTITIONS, retention_ms)


def _chains(flights: list[_Flight]) -> Iterator[list[_Flight]]:
    chain: list[_Flight] = []
    for flight in flights:
        if chain and flight.departs_ms - chain[-1].departs_ms > GAP_MS:
            yield chain
            chain = []
        chain.append(flight)
    yield chain


def _kept(
    values: Mapping[_AnyPlace, Any],
    times: Mapping[_AnyPlace, int],
    partitions: int,
    retention_ms: int,
) -> dict[_AnyPlace, Any]:
    """The rows that retention keeps; each partition has its own stream time."""
    stream_time: dict[int, int] = {}
    for place, time in times.items():
        partition = partition_of(place[0].encode(), partitions)
        stream_time[partition] = max(time, stream_time.get(partition, time))
    return {
        place: value
        for place, value in values.items()
        if times[place] > stream_time[partition_of(place[0].encode(), partitions)] - retention_ms
    }


# --- flights-weather

_FLIGHT = ("carrier", "flight", "tailnum", "dest", "dep_delay")
_WEATHER = ("temp", "wind_speed", "precip", "visib")
_Side = dict[tuple[str, int], dict[str, dict[str, Any]]]  # By airport and hour: values by source.
_SourcedPlace = tuple[str, int, int, tuple[str, ...]]  # Key, start, end and sources.


@cache
def expected_flights_weather() -> dict[str, dict[_SourcedPlace, dict[str, Any]]]:
    """By store: value by (airport, start, end, sources) after all flights and all weather."""
    return flights_weather_of(
        with_sources(read_rows(), "flights.csv"), with_sources(read_weather(), "weather.csv")
    )


def flights_weather_of(
    flights: Flights, weather: Flights, partitions: int = 6, retention_ms: int = RETENTION_MS
) -> dict[str, dict[_SourcedPlace, dict[str, Any]]]:
    """The values after the given flights and weather, in stores with that many partitions."""
    left, right = _side_of(flights, _FLIGHT), _side_of(weather, _WEATHER)
    pairs: dict[_SourcedPlace, dict[str, Any]] = {}
    for hour, of_hour in left.items():
        for source, flight in of_hour.items():
            for other, weather_then in right.get(hour, {}).items():
                pairs[*_window(hour), (source, other)] = flight | weather_then
    stores: dict[str, dict[_SourcedPlace, dict[str, Any]]] = {
        "hourly-flights": _rows_of(left),
        "hourly-weather": _rows_of(right),
        "flights-weather": pairs,
    }
    return {
        store: _kept(rows, {place: place[1] for place in rows}, partitions, retention_ms)
        for store, rows in stores.items()
    }


def _rows_of(side: _Side) -> dict[_SourcedPlace, dict[str, Any]]:
    return {
        (*_window(hour), (source,)): value
        for hour, of_hour in side.items()
        for source, value in of_hour.items()
    }


def _window(hour: tuple[str, int]) -> _Place:
    return (*hour, hour[1] + 3_600_000)


def _side_of(rows: Flights, names: tuple[str, ...]) -> _Side:
    column = _columns(rows)
    side: _Side = defaultdict(dict)
    for row in rows:
        hour = row[column["origin"]], _milliseconds(row[column["time_hour"]])
        side[hour][row[column["source"]]] = {
            name: _typed(name, row[column[name]]) for name in names
        }
    return side


def _typed(name: str, text: str) -> Any:
    if not text:
        return None
    if name in ("carrier", "tailnum", "dest"):
        return text
    return int(text) if name == "flight" else float(text)


# --- delays


@cache
def expected_delays() -> dict[str, Expected]:
    """By store: value by tail number, or by (tail number, airport), after all flights."""
    return delays_of(read_rows())


def delays_of(rows: Flights) -> dict[str, Expected]:
    """The values after the given flights, which come in the order of their days."""
    column = _columns(rows)
    by_aircraft: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        if row[column["tailnum"]] and float(row[column["arr_delay"]] or 0) >= LATE_MIN:
            by_aircraft[row[column["tailnum"]]].append(_late(row, column))
    airports: dict[tuple[str, str], dict[str, Any]] = {}
    for tailnum, arrivals in by_aircraft.items():
        arrivals.sort(key=lambda one: tuple(one.values()))
        for one in arrivals:
            known = airports.setdefault((tailnum, one["dest"]), {"flights": 0, "delay": 0.0})
            known["flights"] += 1
            known["delay"] += one["delay"]
    return {
        "delays-airports": airports,
        "delays-recent": {
            tailnum: [{"departs": one["departs"], "delay": one["delay"]} for one in arrivals[-10:]]
            for tailnum, arrivals in by_aircraft.items()
        },
        "delays-last": {tailnum: arrivals[-1] for tailnum, arrivals in by_aircraft.items()},
    }


def _late(row: list[str], column: Mapping[str, int]) -> dict[str, Any]:
    hour = datetime.fromisoformat(row[column["time_hour"]])
    departs = hour + timedelta(minutes=int(row[column["minute"]]))
    return {
        "departs": departs.strftime("%Y-%m-%dT%H:%MZ"),
        "flight": row[column["carrier"]] + row[column["flight"]],
        "origin": row[column["origin"]],
        "dest": row[column["dest"]],
        "delay": float(row[column["arr_delay"]]),
    }


# --- Comparing


def differences(expected: Expected, held: Iterable[tuple[Any, Any]]) -> list[str]:
    """The differences between a store's rows and the expected rows, a line each."""
    left = dict(expected)
    lines = []
    for place, value in held:
        if place not in left:
            lines.append(f"{place}: is {value}, and should not be there (again)")
        elif left[place] != value:
            lines.append(f"{place}: is {value}, should be {left[place]}")
        left.pop(place, None)
    lines += [f"{place}: is missing, should be {value}" for place, value in left.items()]
    return lines


def _columns(rows: Flights) -> dict[str, int]:
    return {name: index for index, name in enumerate(next(rows))}


def _milliseconds(time_hour: str) -> int:
    return int(datetime.fromisoformat(time_hour).timestamp()) * 1000
