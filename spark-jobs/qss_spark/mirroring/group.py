"""Copies several parts of one state, each into a store of its own, batch by batch."""

from collections.abc import Iterator, Mapping

from qss_spark.mirroring.copy import StateCopy, Written
from qss_spark.state.checkpoint import Checkpoint

_NONE = -1


class StateCopies:
    """The copies of a checkpoint's parts, by the names of their stores.

    All have the same writer, so the bound `{"@batch.<writer>": ...}` reads the same batch from
    every store. No store is more than one batch ahead of another one.
    """

    def __init__(self, checkpoint: Checkpoint, copies: Mapping[str, StateCopy]) -> None:
        """Takes the copies; nothing is written before the first step."""
        self._checkpoint = checkpoint
        self._copies = dict(copies)

    @property
    def last(self) -> int | None:
        """The newest batch that all stores have; None before the first one."""
        last = min(map(_last, self._copies.values()))
        return None if last == _NONE else last

    def step(self) -> Iterator[tuple[str, Written]]:
        """Writes the next committed batch into the stores that lack it; nothing where none does.

        Raises as `StateCopy.step`. What was written then stays, and is not written again.
        """
        newest = self._checkpoint.newest()
        lacking = {
            name: one
            for name, one in self._copies.items()
            if one.needs_whole or _last(one) != newest
        }
        first = min(map(_last, lacking.values()), default=_NONE)
        for name, one in lacking.items():
            if _last(one) == first and (written := one.step()) is not None:
                yield name, written

    def renew(self) -> None:
        """Keeps the runs open while the query commits nothing."""
        for one in self._copies.values():
            one.renew()

    def close(self) -> None:
        """Ends the runs: the stores need not wait for them."""
        for one in self._copies.values():
            one.close()


def _last(copy: StateCopy) -> int:
    return _NONE if copy.last is None else copy.last
