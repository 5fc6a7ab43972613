"""Reads the metrics of a pod: the text format of Prometheus, as pods write it. Pure."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

# A label may have braces: the template of a path.
_LINE = re.compile(r"(?P<name>[a-z_]+)(?:\{(?P<labels>.*)\})? (?P<value>[^ ]+)")
_LABEL = re.compile(r'([a-z_]+)="([^"]*)"')
Labels = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class MetricLine:
    """One number of a metric; pods put no quotes into labels."""

    name: str
    labels: Labels
    value: float


class PodMetrics:
    """The metrics of one pod at one time."""

    def __init__(self, text: str) -> None:
        self._lines: dict[str, list[MetricLine]] = {}
        for line in _lines(text):
            self._lines.setdefault(line.name, []).append(line)

    def total(self, name: str, chosen: Callable[[Labels], bool] = lambda _: True) -> float:
        """The sum of a metric over the labels that are chosen; 0 for a metric without lines."""
        return sum(one.value for one in self._lines.get(name, ()) if chosen(one.labels))

    def buckets(self, name: str, chosen: Callable[[Labels], bool]) -> dict[float, float]:
        """The cumulative counts of a histogram by their upper bounds, summed over the labels."""
        counts: dict[float, float] = {}
        for one in self._lines.get(f"{name}_bucket", ()):
            if chosen(one.labels):
                bound = float(one.labels["le"])
                counts[bound] = counts.get(bound, 0.0) + one.value
        return counts


def _lines(text: str) -> Iterator[MetricLine]:
    for line in text.splitlines():
        found = None if line.startswith("#") else _LINE.fullmatch(line)
        if found is None:
            continue
        yield MetricLine(
            found["name"], dict(_LABEL.findall(found["labels"] or "")), float(found["value"])
        )
