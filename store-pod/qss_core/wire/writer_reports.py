"""What a person is told of the writers of a store."""

import re

from qss_core.errors import MalformedRequestError
from qss_core.model import Wire

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")


class WriterReport(Wire, frozen=True, kw_only=True):
    """A writer that the store knows. `silent_s`: since its open run was heard of; None: closed."""

    name: str
    query_id: str
    generation: int
    opened_at_ms: int
    last_batch: int | None = None
    one_off: bool = False
    silent_s: float | None = None


class WritersAnswer(Wire, frozen=True, kw_only=True):
    """All writers of a store, by name."""

    writers: tuple[WriterReport, ...]


def check_writer_name(name: str) -> str:
    """The name, if a writer may have it: it stands in paths. Raises MalformedRequestError."""
    if not _NAME.fullmatch(name):
        raise MalformedRequestError(
            "a writer's name has up to 200 letters, digits, '.', '_' and '-', and starts with one "
            f"of the first two, not {name[:40]!r}"
        )
    return name
