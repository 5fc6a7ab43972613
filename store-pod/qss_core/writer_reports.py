"""What a person is told of the writers of a store."""

from qss_core.model import Wire


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
