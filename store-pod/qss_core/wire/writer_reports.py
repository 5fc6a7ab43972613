"""The report on a store's writers, which a person reads, and the rule for a writer's name."""

import re

from qss_core.errors import MalformedRequestError
from qss_core.model import Answer

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")


class WriterReport(Answer, frozen=True, kw_only=True):
    """A writer that the store knows.

    `silent_s` is the time since the last request of its open run; None where the run is closed. The
    pod of partition 0 forgets that time when it restarts: of a run that is not `is_heard_of` it had
    no request since then, and `silent_s` counts from a time after its start.
    """

    name: str
    query_id: str
    generation: int
    opened_at_ms: int
    last_batch: int | None = None
    one_off: bool = False
    silent_s: float | None = None
    is_heard_of: bool = True


class WritersAnswer(Answer, frozen=True, kw_only=True):
    """All writers of a store, by name."""

    writers: tuple[WriterReport, ...]


def check_writer_name(name: str) -> str:
    """The name, if it may stand in a path. Raises MalformedRequestError."""
    if not _NAME.fullmatch(name):
        raise MalformedRequestError(
            "a writer's name has up to 200 letters, digits, '.', '_' and '-', and starts with one "
            f"of the first two, not {name[:40]!r}"
        )
    return name
