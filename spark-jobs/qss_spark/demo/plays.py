"""What the demo plays: jobs, what their stores must hold, and what a person asks them."""

import random  # noqa: TID251 which row is asked for does not matter.
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from qss_client import Store
from qss_spark.demo import expected

Rows = Iterable[tuple[Any, Any]]


@dataclass(frozen=True, slots=True)
class Play:
    """A job; its script, its resource and its store have its name."""

    name: str
    unit: str  # What its store's rows are.
    expected: Callable[[], expected.Expected]  # What the store must hold at the end.
    rows: Callable[[Store], Rows]  # What it holds, told apart as `expected` does.
    ask: Callable[[Store, Sequence[Any]], str]  # Asks for one of these, and says what it got.
    invitations: tuple[str, ...]  # Commands to try; {url} is a pod's, {state} the cluster's.

    @property
    def file(self) -> str:
        """The name of its files, without what tells them apart."""
        return self.name.replace("-", "_")


def _keys(store: Store) -> Rows:
    return ((row.key, row.value) for row in store.range())


def _windows(store: Store) -> Rows:
    return (((row.key, row.start, row.end), row.value) for row in store.windows())


def _sessions(store: Store) -> Rows:
    return (((row.key, row.start, row.end), row.value) for row in store.sessions())


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


AIRCRAFT_STATS = Play(
    "aircraft-stats",
    "keys",
    expected.expected_aircraft_stats,
    _keys,
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
DEPARTURES = Play(
    "departures",
    "windows",
    expected.expected_departures,
    _windows,
    _ask_newest_window,
    (
        "qss windows departures JFK --from 2013-12-24T12:00:00Z --limit 5 --url {url}",
        "qss windows departures --order-by time --order DESCENDING --limit 5 --url {url}",
    ),
)
ROTATIONS = Play(
    "rotations",
    "sessions",
    expected.expected_rotations,
    _sessions,
    _ask_newest_session,
    (
        "qss sessions rotations N14228 --order DESCENDING --limit 5 --url {url}",
        "qss sessions rotations --key-from N14 --key-to N15 --limit 5 --url {url}",
    ),
)
PLAYS = (AIRCRAFT_STATS, DEPARTURES, ROTATIONS)
