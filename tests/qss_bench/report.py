"""Prints the table of figures, and writes `.bench/results.json`."""

import json
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

RESULTS = Path(".bench/results.json")


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One figure; `at_least` or `at_most` is its target, if it has one."""

    name: str
    value: float
    unit: str
    detail: str
    at_least: float | None = None
    at_most: float | None = None

    @property
    def target(self) -> str:
        if self.at_least is not None:
            return f">= {self.at_least:g}"
        return "-" if self.at_most is None else f"<= {self.at_most:g}"

    @property
    def holds(self) -> bool:
        """Whether the value meets the target."""
        if self.at_least is not None:
            return self.value >= self.at_least
        return self.at_most is None or self.value <= self.at_most


def write(figures: list[Figure]) -> None:
    """Prints the table, and writes the file."""
    RESULTS.parent.mkdir(exist_ok=True)
    rows = [
        {
            "name": figure.name,
            "value": round(figure.value, 4),
            "unit": figure.unit,
            "target": figure.target,
            "holds": figure.holds,
        }
        for figure in figures
    ]
    RESULTS.write_text(json.dumps(rows, indent=2) + "\n")
    show(figures)


def show(figures: list[Figure]) -> None:
    table = Table("figure", "value", "target", "holds", "detail", box=None)
    for figure in figures:
        holds = "yes" if figure.holds else "NO"
        value = f"{figure.value:.3g} {figure.unit}"
        table.add_row(figure.name, value, figure.target, holds, figure.detail)
    Console(width=160).print(table)
