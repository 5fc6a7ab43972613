"""Runs `qss` in this process against one store."""

import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from qss_client.cli.main import main
from qss_testing.clients.qss_command import Finished

LONG = "x" * 300
# Rows that are hard to show.
ROWS: dict[str, Any] = {
    "a1": {"n": 1},
    "a2": [1, "two", None],
    "b1": LONG,
    "b/2 %": ":smile: [red]x[/red]",
    "c\x1b[31m\n": "esc \x1b[31m",
    "": None,
    "ä": True,
}


class Program:
    """A program of the command line, which runs in this process."""

    def __init__(
        self, main: Callable[[Sequence[str]], None], capture: pytest.CaptureFixture[str]
    ) -> None:
        self._main = main
        self._capture = capture

    def run(self, *arguments: str) -> Finished:
        with pytest.raises(SystemExit) as ended:
            self._main(arguments)
        out, err = self._capture.readouterr()
        code = ended.value.code
        return Finished(code if isinstance(code, int) else 0, out, err)

    def json(self, *arguments: str) -> Any:
        """The JSON output of a command."""
        done = self.run(*arguments, "-o", "json")
        assert (done.code, done.err) == (0, ""), done.err
        return json.loads(done.out)


class Terminal(Program):
    def __init__(self, url: str, capture: pytest.CaptureFixture[str]) -> None:
        super().__init__(main, capture)
        self._url = url

    def run(self, *arguments: str) -> Finished:
        """Runs a command, with the store's URL unless `arguments` have one."""
        url = () if "--url" in arguments else ("--url", self._url)
        return super().run(*arguments, *url)

    def refused(self, code: int, *arguments: str) -> str:
        """The error of a command that fails, which is one line."""
        done = self.run(*arguments)
        assert done.code == code, (done.out, done.err)
        assert done.out == ""
        assert len(done.err.splitlines()) == 1
        return done.err
