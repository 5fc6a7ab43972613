"""Copies several parts of one state, each into a store of its own, batch by batch."""

from collections.abc import Iterator, Mapping

from qss_client.clock import Clock, SystemClock
from qss_spark.mirroring.copies.state_copy import StateCopy, Written
from qss_spark.state.checkpoint import Checkpoint

_NONE = -1
_LOOKS = 100  # A second, at the pace of `follow_loop`.
_KEEP_S = 60.0


class StateCopies:
    """The copies of a checkpoint's parts, by the names of their stores.

    All have the same writer, so the bound `{"@batch.<writer>": ...}` reads the same batch from
    every store. No store is more than one batch ahead of another one.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        copies: Mapping[str, StateCopy],
        clock: Clock = SystemClock(),  # noqa: B008 it has no state.
    ) -> None:
        """Takes the copies; nothing is written before the first step."""
        self._checkpoint = checkpoint
        self._copies = dict(copies)
        self._looks = -1  # So that the first look lists all batches.
        self._clock, self._kept_s = clock, clock.monotonic_s()
        for one in self._copies.values():
            one.meanwhile = self._keep_open

    @property
    def last(self) -> int | None:
        """The newest batch that all stores have; None before the first one."""
        last = min(map(_last, self._copies.values()))
        return None if last == _NONE else last

    def step(self, *, lists: bool = False) -> Iterator[tuple[str, Written]]:
        """Writes the next committed batch into the stores that lack it; nothing where none does.

        lists: looks at all batches, and not at the next one alone. Raises as `StateCopy.step`. What
        was written then stays, and is not written again.
        """
        if not lists and self._is_level():
            return
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
                self._keep_open()

    def _is_level(self) -> bool:
        """Whether no store lacks a batch, by one look at the next one.

        All batches are listed each hundredth time: Spark may have deleted the next one, or the
        checkpoint may have been restored.
        """
        self._looks += 1
        last = {_last(one) for one in self._copies.values()}
        return (
            self._looks % _LOOKS != 0
            and len(last) == 1
            and not any(one.needs_whole for one in self._copies.values())
            and not self._checkpoint.is_committed(last.pop() + 1)
        )

    def renew(self) -> None:
        """Keeps the runs open while the query commits nothing. Raises StaleWriterError."""
        for one in self._copies.values():
            one.renew()

    def _keep_open(self) -> None:
        """Keeps the runs open each minute, also while one store gets a large state for hours.

        A store closes a run that is silent for an hour.
        """
        if self._clock.monotonic_s() - self._kept_s >= _KEEP_S:
            for one in self._copies.values():
                one.keep_open()
            self._kept_s = self._clock.monotonic_s()

    def close(self) -> None:
        """Ends the runs: the stores need not wait for them."""
        for one in self._copies.values():
            one.close()


def _last(copy: StateCopy) -> int:
    return _NONE if copy.last is None else copy.last
