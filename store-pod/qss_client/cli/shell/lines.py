"""Makes of a line of `qss shell` the arguments of a command of `qss`."""

import re
import shlex
from collections.abc import Sequence
from typing import Any

from qss_core.errors import MalformedRequestError

ENDS = frozenset({"exit", "quit"})
_LINE_MAX = 100_000
# A comment begins with a word, as in other shells; shlex would take C#1 for the word C. What stands
# in quotes or behind a backslash is no comment.
_COMMENT = re.compile(r"""('[^']*'|"(?:\\.|[^"\\])*"|\\.)|(?<!\S)\#.*""", re.DOTALL)
_NOT_INSIDE = frozenset({"shell", "up", "demo"})


class Lines:
    """The commands of a shell, with the store and the options that each line gets."""

    def __init__(self, command: Any, store: str | None, options: Sequence[str]) -> None:
        """command: the group of typer, whose members have `params`. options: of a connection."""
        self.command = command
        self._store = store
        self._options = tuple(options)

    def arguments(self, line: str) -> list[str]:
        """The arguments of a command; none for an empty line. Raises MalformedRequestError.

        Only options that the command has are added, and none that the line has.
        """
        if len(line) > _LINE_MAX:
            raise MalformedRequestError(f"a line has at most {_LINE_MAX} characters")
        try:
            words = shlex.split(_COMMENT.sub(lambda found: found[1] or "", line))
        except ValueError as error:
            raise MalformedRequestError(
                f"{error}: close the quotes, or put \\ before one"
            ) from error
        if not words:
            return []
        if words[0] == "help":
            return [*words[1:], "--help"]
        if words[0] in _NOT_INSIDE:
            raise MalformedRequestError(f"`qss {words[0]}` runs outside of the shell")
        words = self.with_store(words)
        if "--help" in words or "-h" in words:
            return words
        return [words[0], *self._added(words), *words[1:]]

    def with_store(self, words: Sequence[str]) -> list[str]:
        """The words with the store behind the command, if it takes one."""
        if self._store is None or not words:
            return list(words)
        parameters = self._parameters(words[0])
        # The option --store of `load` has the same name as the argument of the others.
        named = [one for one in parameters if one.name == "store"]
        if not named:
            return list(words)
        if named[0].param_type_name == "argument":
            return [words[0], self._store, *words[1:]]
        given = {*named[0].opts} & {word.partition("=")[0] for word in words}
        return list(words) if given else [words[0], "--store", self._store, *words[1:]]

    def _added(self, words: Sequence[str]) -> list[str]:
        known = {option for one in self._parameters(words[0]) for option in one.opts}
        given = {word.partition("=")[0] for word in words}
        return [
            one
            for one in self._options
            if (name := one.partition("=")[0]) in known and name not in given
        ]

    def _parameters(self, name: str) -> list[Any]:
        command = self.command.commands.get(name)
        return [] if command is None else list(command.params)
