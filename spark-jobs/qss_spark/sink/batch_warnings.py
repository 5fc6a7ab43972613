"""Warns the driver of rows in a committed batch that may be unintended."""

import logging

from qss_core.model import StoreDefinition
from qss_core.quantities import shown_duration
from qss_core.wire.messages import CommitAnswer

_LOG = logging.getLogger("qss_spark")


def warn_of_dropped(
    definition: StoreDefinition, batch: int, answer: CommitAnswer, records: int | None
) -> None:
    """Warns of rows that were too old; `records` is None for a batch that was written before."""
    dropped = sum(answer.dropped.values())
    if dropped:
        of_all = "" if records is None else f" of {records}"
        retention_ms = definition.history_retention_ms or definition.retention_ms
        _LOG.warning(
            "batch %s: %s%s rows were dropped: they are older than store %s keeps (%s)",
            batch,
            dropped,
            of_all,
            definition.name,
            shown_duration(retention_ms or 0),
        )


def warn_of_unaligned(definition: StoreDefinition, batch: int, unaligned: int) -> None:
    """Warns of windows that do not start at a multiple of the store's window size."""
    if unaligned:
        _LOG.warning(
            "batch %s: %s windows do not start at a multiple of the windowSize of store %s "
            "(%s): that is right for windows that overlap or have an offset; others are not "
            "found under the start that a reader computes",
            batch,
            unaligned,
            definition.name,
            shown_duration(definition.window_size_ms or 0),
        )
