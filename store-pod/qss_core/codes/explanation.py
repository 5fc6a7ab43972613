"""The text that explains one error code."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Three paragraphs in Markdown; commands, settings and fields stand in backquotes."""

    meaning: str
    cause: str
    remedy: str
