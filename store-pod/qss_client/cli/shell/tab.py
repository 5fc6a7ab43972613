"""Recognises a start at the Tab key: the script of a shell sets the words of the line."""

import os

VARIABLE = "_QSS_COMPLETE"  # Set by a script that asks for completions.


def words_to_complete() -> list[str] | None:
    """The words of the command line at a Tab, without the program; None for any other start."""
    if VARIABLE not in os.environ:
        return None
    text = os.environ.get("COMP_WORDS") or os.environ.get("_TYPER_COMPLETE_ARGS") or ""
    return text.split()[1:]


def prepare_completion() -> None:
    """Has typer answer the scripts of all shells."""
    from typer.completion import completion_init  # type: ignore[attr-defined]

    completion_init()
