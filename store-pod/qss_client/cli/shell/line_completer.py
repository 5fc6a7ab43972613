"""Completes the words of a line of `qss shell`, as the Tab key does in the user's own shell."""

import shlex
from collections.abc import Iterable

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from typer import completion

from qss_client.cli.shell.lines import Lines
from qss_client.cli.shell.tab import VARIABLE, prepare_completion


class LineCompleter(Completer):
    """Asks the commands of `lines` for the completions of the last word."""

    def __init__(self, lines: Lines) -> None:
        self._lines = lines
        prepare_completion()
        shells = completion.shell_completion  # type: ignore[attr-defined]
        # The completion of any shell finds the words; shells differ in writing them.
        self._asked = shells.get_completion_class("bash")(lines.command, {}, "qss", VARIABLE)

    def get_completions(
        self,
        document: Document,
        complete_event: CompleteEvent,  # noqa: ARG002 the protocol has it.
    ) -> Iterable[Completion]:
        text = document.text_before_cursor
        try:
            words = shlex.split(text)
        except ValueError:
            return  # Inside of quotes.
        last = "" if not words or text[-1:].isspace() else words.pop()
        for found in self._asked.get_completions(self._lines.with_store(words), last):
            yield Completion(
                shlex.quote(found.value),
                start_position=-len(last),
                display=found.value,
                display_meta=found.help or "",
            )
