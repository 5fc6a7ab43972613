"""Recognises a start at the Tab key: the script of a shell sets the words of the line."""

import os
from collections.abc import Mapping

VARIABLE = "_QSS_COMPLETE"  # Set by a script that asks for completions.


def words_to_complete(environment: Mapping[str, str] = os.environ) -> list[str] | None:
    """The words of the command line at a Tab, without the program; None for any other start."""
    if VARIABLE not in environment:
        return None
    text = environment.get("COMP_WORDS") or environment.get("_TYPER_COMPLETE_ARGS") or ""
    return text.split()[1:]


def prepare_completion() -> None:
    """Has typer answer the scripts of all shells."""
    from typer.completion import completion_init  # type: ignore[attr-defined]

    completion_init()
