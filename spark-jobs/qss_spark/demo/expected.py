"""What the stores must hold at the end, computed in batch, in plain Python, from the same files."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from qss_client import Row
from qss_spark.flights import read_rows

DIFFERENCES_SHOWN_MAX = 10


@dataclass(slots=True)
class _Aircraft:
    flights: int = 0
    distance: int = 0
    delay_sum: float = 0.0
    delays: int = 0


def expected_aircraft_stats() -> dict[str, dict[str, Any]]:
    """Value by key of the store aircraft-stats, after all flights."""
    return aircraft_stats_of(read_rows())


def aircraft_stats_of(rows: Iterator[list[str]]) -> dict[str, dict[str, Any]]:
    """The same after some flights, the header first. Sums of minutes are exact in any order."""
    column = {name: index for index, name in enumerate(next(rows))}
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


def differences(expected: Mapping[str, Any], held: Iterable[Row]) -> list[str]:
    """How a store's rows differ from what they should be, a line each."""
    left = dict(expected)
    lines = []
    for row in held:
        if row.key not in left:
            lines.append(f"{row.key}: is {row.value}, and should not be there (again)")
        elif left[row.key] != row.value:
            lines.append(f"{row.key}: is {row.value}, should be {left[row.key]}")
        left.pop(row.key, None)
    lines += [f"{key}: is missing, should be {value}" for key, value in left.items()]
    return lines
