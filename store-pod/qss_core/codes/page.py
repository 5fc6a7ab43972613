"""Writes the page of all codes, and the text of one code, from the explanations."""

import textwrap

from qss_core.codes.catalogue import CHAPTERS, EXPLANATIONS, type_of
from qss_core.codes.error_classes import ERRORS
from qss_core.codes.explanation import Explanation
from qss_core.errors import Retry

_COLUMNS = 150
_ADVICE = {
    Retry.NEVER: "not to be repeated unchanged",
    Retry.LATER: "the same request may succeed later",
    Retry.REFRESH_ROUTES: "to be repeated at the pod that is responsible",
}
_TITLE = "# What does an error code mean, and what do I do?"
_HEAD = (
    "Every failure has a stable code. A pod sends it as the member `code` of an "
    "`application/problem+json` (RFC 9457), `qss` prints it as `error: CODE: message`, and Python "
    "raises a `StoreError` with the attribute `code`. The member `type` of the problem is "
    f"`{type_of('CODE')}`. `qss explain CODE` prints the text of this page for a code or a `type`, "
    "and `qss explain` lists the codes.",
    "The page is made from the texts in `qss_core/codes`, by `python -m qss_core.codes`.",
)


def page_of_codes() -> str:
    """The page in Markdown: a chapter by kind of failure, a heading by code."""
    parts = [f"{_TITLE}\n", *(f"{_filled(part)}\n" for part in _HEAD)]
    for chapter, texts in CHAPTERS.items():
        parts.append(f"## {chapter}\n")
        parts += [_section(code, text) for code, text in texts.items()]
    return "\n".join(parts)


def text_of(code: str, columns: int) -> str:
    """The explanation of one code for a terminal of so many columns."""
    text = EXPLANATIONS[code]
    parts = {
        "means": text.meaning,
        "why": text.cause,
        "what to do": text.remedy,
        "status": _told_of_status(code),
        "type": type_of(code),
    }
    lines = [code, ""]
    for name, part in parts.items():
        if part:
            lines += textwrap.wrap(
                part,
                columns,
                initial_indent=f"{name:12}",
                subsequent_indent=" " * 12,
                break_long_words=False,
                break_on_hyphens=False,
            )
    return "\n".join(lines)


def _section(code: str, text: Explanation) -> str:
    status = _told_of_status(code)
    parts = [text.meaning, f"*Why:* {text.cause}", f"*What to do:* {text.remedy}"]
    told = " ".join([*parts, *([f"*Status:* {status}."] if status else [])])
    return f"### {code}\n\n{_filled(told)}\n"


def _filled(text: str) -> str:
    return textwrap.fill(text, _COLUMNS, break_long_words=False, break_on_hyphens=False)


def _told_of_status(code: str) -> str:
    """The HTTP statuses of a code, each with its next step; empty for codes of commands."""
    told = {
        error.http_status: _ADVICE[error.retry]
        for error in ERRORS.values()
        if error.code == code and "http_status" in vars(error)
    }
    return ". ".join(f"{status}: {advice}" for status, advice in sorted(told.items()))
