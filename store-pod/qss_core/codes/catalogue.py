"""All explanations by their code, and the URI of a code."""

from qss_core.codes.answers import ANSWERS
from qss_core.codes.batches import BATCHES
from qss_core.codes.commands import COMMANDS
from qss_core.codes.explanation import Explanation
from qss_core.codes.requests import REQUESTS

# The headings of the page and of the list, with their codes in the order of the page.
CHAPTERS: dict[str, dict[str, Explanation]] = {
    "The request": REQUESTS,
    "The store and its pods": ANSWERS,
    "Writers and batches": BATCHES,
    "Commands": COMMANDS,
}
EXPLANATIONS: dict[str, Explanation] = {
    code: text for chapter in CHAPTERS.values() for code, text in chapter.items()
}
_TYPE = "tag:queryablestate.dev,2026:error:"


def type_of(code: str) -> str:
    """The URI of a code, which is the `type` of its problem documents (RFC 9457, RFC 4151)."""
    return _TYPE + code


def code_of_text(text: str) -> str:
    """The code in a person's text: a code in any case, with - for _, or the URI of a code."""
    return text.strip().removeprefix(_TYPE).upper().replace("-", "_")
