"""Reads files of scenarios: each has a title, the cases that it covers, a store and lines."""

import re
from dataclasses import dataclass
from pathlib import Path

_TITLE = re.compile(r"scenario: (.+)")
_CASES = re.compile(r"cases: (.+)")
_STORE = re.compile(r"store:(.*)")


@dataclass(frozen=True, slots=True)
class Line:
    """One line, with its number in the file."""

    number: int
    text: str


@dataclass(frozen=True, slots=True)
class Scenario:
    """One scenario of a file."""

    file: str
    title: str
    cases: str
    store: dict[str, str]
    lines: tuple[Line, ...]


class ScriptError(AssertionError):
    """A line that nobody understands, or that does not hold."""


def scenarios_in(path: Path) -> list[Scenario]:
    """The scenarios of a file. A line may end with a comment, which begins with `#`."""
    found: list[Scenario] = []
    title, cases, store, lines = "", "", dict[str, str](), list[Line]()

    def end() -> None:
        if title:
            if not (cases and lines):
                raise ScriptError(f"{path.name}: {title!r} needs cases and lines")
            found.append(Scenario(path.name, title, cases, store, tuple(lines)))

    for number, raw in enumerate(path.read_text().splitlines(), start=1):
        text = raw.partition("#")[0].strip()
        if match := _TITLE.fullmatch(text):
            end()
            title, cases, store, lines = match[1], "", {}, []
        elif match := _CASES.fullmatch(text):
            cases = match[1]
        elif match := _STORE.fullmatch(text):
            store = dict(word.split("=", 1) for word in match[1].split())
        elif text:
            lines.append(Line(number, text))
    end()
    return found
