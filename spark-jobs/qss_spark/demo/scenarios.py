"""The scenarios of the demo: jobs, their expected rows, and example queries."""

import random  # noqa: TID251 which row is asked for does not matter.
from base64 import b64decode
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from qss_client import Store
from qss_spark.demo import expected
from qss_spark.flights import FLIGHTS, WEATHER, write_both, write_days

Rows = Iterable[tuple[Any, Any]]
LATE_ARRIVALS = 28_317  # Of known aircraft.


@dataclass(frozen=True, slots=True)
class Part:
    """A store that a job writes, or that gets a part of the state of its query."""

    store: str
    unit: str  # The name of its rows.
    expected: Callable[[], expected.Expected]  # Computes its expected rows.
    rows: Callable[[Store], Rows]  # Reads its rows, with identities as in `expected`.


@dataclass(frozen=True, slots=True)
class Scenario:
    """A job; its script and its resources are named like it."""

    name: str
    parts: tuple[Part, ...]
    input: str  # The input's directory, and the function that writes it.
    write_input: Callable[[Path], object]
    ask: Callable[[Store, Sequence[Any]], str]  # Asks the last store for one of these places.
    # {url} is that of the last store, {state} the cluster's directory, {checkpoint} the query's.
    example_commands: tuple[str, ...]
    total: int = FLIGHTS  # The rows of the input, and their name.
    counted: str = "flights"
    is_mirrored: bool = False  # The job writes no store: `qss mirror` copies its state.

    @property
    def file(self) -> str:
        """The name of its files, without the extension."""
        return self.name.replace("-", "_")

    @property
    def mirror_file(self) -> str:
        """The name of the file that tells `qss mirror` what to copy."""
        return f"{self.name}-mirror.yaml"

    @property
    def told(self) -> str:
        """The inputs of the job and its stores, as a sentence for a person at the terminal."""
        stores = ", ".join(part.store for part in self.parts)
        rows = f"{self.total:,} {self.counted}"
        if self.is_mirrored:
            return f"{rows} into the state of {self.name}, which qss mirror copies into {stores}"
        return f"{rows} into {stores}"

    def url_arguments(self, urls: Mapping[str, str]) -> list[str]:
        """The arguments by which its script gets the URLs of its stores."""
        if self.is_mirrored:
            return []
        if len(self.parts) == 1:
            (part,) = self.parts
            return ["--url", urls[part.store], "--store", part.store]
        return [
            word for part in self.parts for word in ("--url", f"{part.store}={urls[part.store]}")
        ]


def _keys(store: Store) -> Rows:
    return ((row.key, row.value) for row in store.range())


def _several(store: Store) -> Rows:
    """Rows whose keys have several columns."""
    return ((tuple(row.key.values()), row.value) for row in store.range())


def _windows(store: Store) -> Rows:
    return (((row.key, row.start, row.end), row.value) for row in store.windows())


def _sessions(store: Store) -> Rows:
    return (((row.key, row.start, row.end), row.value) for row in store.sessions())


def _sourced(store: Store) -> Rows:
    for row in store.windows():
        sources = tuple(b64decode(value or "").decode() for _, value in row.headers or ())
        yield (row.key, row.start, row.end, sources), row.value


def _ask_key(store: Store, places: Sequence[Any]) -> str:
    key = random.choice(places)
    row = store.get(key)
    return f"{key} -> {'not there yet' if row is None else row.value}"


def _ask_newest_window(store: Store, places: Sequence[Any]) -> str:
    key = random.choice(places)[0]
    row = next(iter(store.windows(key, order="DESCENDING", limit=1)), None)
    return f"{key} -> {'nothing yet' if row is None else f'{_hour(row.start)} {row.value}'}"


def _ask_newest_session(store: Store, places: Sequence[Any]) -> str:
    key = random.choice(places)[0]
    row = next(iter(store.sessions(key, order="DESCENDING", limit=1)), None)
    times = "" if row is None else f"{_hour(row.start)} to {_hour(row.end)}"
    return f"{key} -> {'nothing yet' if row is None else f'{times} {row.value}'}"


def _hour(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%Y-%m-%dT%H:%MZ")


AIRCRAFT_STATS = Scenario(
    "aircraft-stats",
    (Part("aircraft-stats", "keys", expected.expected_aircraft_stats, _keys),),
    "flights",
    write_days,
    _ask_key,
    (
        "qss status --state-dir {state}",
        "qss get aircraft-stats N14228 --url {url}",
        "qss scan aircraft-stats --prefix N14 --limit 5 --url {url}",
        "qss query aircraft-stats RangeQuery lower=N14 upper=N15 --limit 3 --url {url}",
        "curl -i {url}/state/stores/aircraft-stats/N14228",
        "curl {url}/state/instance/aircraft-stats/N14228",
    ),
)
DEPARTURES = Scenario(
    "departures",
    (Part("departures", "windows", expected.expected_departures, _windows),),
    "flights",
    write_days,
    _ask_newest_window,
    (
        "qss windows departures JFK --from 2013-12-24T12:00:00Z --limit 5 --url {url}",
        "qss windows departures --order-by time --order DESCENDING --limit 5 --url {url}",
    ),
)
ROTATIONS = Scenario(
    "rotations",
    (Part("rotations", "sessions", expected.expected_rotations, _sessions),),
    "flights",
    write_days,
    _ask_newest_session,
    (
        "qss sessions rotations N14228 --order DESCENDING --limit 5 --url {url}",
        "qss sessions rotations --key-from N14 --key-to N15 --limit 5 --url {url}",
    ),
)
FLIGHTS_WEATHER = Scenario(
    "flights-weather",
    tuple(
        Part(
            store,
            "windows",
            lambda store=store: expected.expected_flights_weather()[store],  # type: ignore[misc]
            _sourced,
        )
        for store in ("hourly-flights", "hourly-weather", "flights-weather")
    ),
    "flights-and-weather",
    write_both,
    _ask_newest_window,
    (
        "qss windows flights-weather JFK --order DESCENDING --limit 3 --output json --url {url}",
        "qss windows flights-weather LGA --from 2013-12-24T12:00:00Z --limit 5 --url {url}",
    ),
    total=FLIGHTS + WEATHER,
    counted="rows of flights and weather",
)
DELAYS = Scenario(
    "delays",
    tuple(
        Part(
            store,
            "keys",
            lambda store=store: expected.expected_delays()[store],  # type: ignore[misc]
            rows,
        )
        for store, rows in (
            ("delays-airports", _several),
            ("delays-recent", _keys),
            ("delays-last", _keys),
        )
    ),
    "flights",
    write_days,
    _ask_key,
    (
        "qss mirror {checkpoint}",
        "qss get delays-last N14228 --url {url}",
        "qss get delays-recent N14228 --output json --state-dir {state}",
        """qss get delays-airports '{{"tailnum":"N14228","airport":"SFO"}}' --state-dir {state}""",
    ),
    total=LATE_ARRIVALS,  # Spark's reader of files leaves out the others.
    counted="late arrivals",
    is_mirrored=True,
)
OPEN_DEPARTURES = Scenario(
    "open-departures",
    (Part("open-departures", "open windows", expected.expected_open_departures, _windows),),
    "flights",
    write_days,
    _ask_newest_window,
    (
        "qss mirror {checkpoint}",
        "qss windows open-departures JFK --order DESCENDING --limit 5 --url {url}",
    ),
    is_mirrored=True,
)
SCENARIOS = (AIRCRAFT_STATS, DEPARTURES, ROTATIONS, FLIGHTS_WEATHER, DELAYS, OPEN_DEPARTURES)
