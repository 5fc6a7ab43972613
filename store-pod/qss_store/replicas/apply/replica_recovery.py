"""The way of a replica from an opened database to a state that readers see.

The steps are planned from what the database holds, and performed in order. A full disk cuts the
plan short; it is made again then, and every step that was done before changes nothing more.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import Enum, auto
from typing import assert_never

from qss_store.replicas.apply.replica_parts import ReplicaParts
from qss_store.storage.commit_rows.commit_writer import APPLYING, drop_families
from qss_store.storage.engine import META


class Step(Enum):
    """One step of a recovery."""

    BEGIN_INDEX = auto()  # Notes that indexes have to be made, before old ones are dropped.
    KEEP_CONFIGURATION = auto()
    SYNC = auto()  # What is dropped next is needed by no state that could come back.
    OPEN_FAMILIES = auto()
    DROP_LEFTOVERS = auto()
    BUILD_INDEX = auto()
    SHOW_STATE = auto()
    APPLY_TAIL = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What the database of a replica holds when it is opened."""

    is_configuration_kept: bool
    is_commit_unfinished: bool  # Some slices of a commit are written, and not all of them.


def plan_recovery(found: Found) -> tuple[Step, ...]:
    """The steps to a replica that serves.

    The rows of an unfinished commit lie among the others already: nothing is shown before the log's
    tail, which has that commit, is applied.
    """
    return (
        Step.BEGIN_INDEX,
        *(() if found.is_configuration_kept else (Step.KEEP_CONFIGURATION,)),
        Step.SYNC,
        Step.OPEN_FAMILIES,
        Step.DROP_LEFTOVERS,
        Step.BUILD_INDEX,
        *(() if found.is_commit_unfinished else (Step.SHOW_STATE,)),
        Step.APPLY_TAIL,
        Step.SHOW_STATE,
    )


class Recovery:
    """Recovers one replica; `is_done` tells that all entries of its log's tail are applied."""

    def __init__(self, parts: ReplicaParts, apply_tail: Callable[[], Awaitable[None]]) -> None:
        """`apply_tail` applies all entries under the high watermark."""
        self.is_done = False
        self._parts = parts
        self._apply_tail = apply_tail

    async def run(self) -> None:
        """Performs all steps. DiskFullError: to be called again once the disk has room."""
        parts = self._parts
        found = Found(
            is_configuration_kept=parts.is_configuration_kept,
            is_commit_unfinished=self._is_commit_unfinished,
        )
        for step in plan_recovery(found):
            await self._perform(step)
        self.is_done = True
        parts.health.settled.set()

    @property
    def _is_commit_unfinished(self) -> bool:
        return self._parts.engine.get(META, APPLYING) is not None

    async def _perform(self, step: Step) -> None:
        parts = self._parts
        match step:
            case Step.BEGIN_INDEX:
                parts.index_build.begin(parts.families())
            case Step.KEEP_CONFIGURATION:
                parts.write_configuration()
            case Step.SYNC:
                await parts.changelog.sync()
            case Step.OPEN_FAMILIES:
                parts.families().open(parts.engine)
            case Step.DROP_LEFTOVERS:
                await self._drop_leftovers()
            case Step.BUILD_INDEX:
                await self._build_index()
            case Step.SHOW_STATE:
                self._show_state()
            case Step.APPLY_TAIL:
                await self._apply_tail()
            case _:
                assert_never(step)

    async def _drop_leftovers(self) -> None:
        parts = self._parts
        leftovers = parts.families().leftovers(
            parts.engine.families(),
            parts.machine.participant.stream_time,
            is_applying=self._is_commit_unfinished,
        )
        await drop_families(parts.engine, leftovers)

    async def _build_index(self) -> None:
        """Makes missing index rows, which takes long: the start of the replica waits no longer."""
        parts = self._parts
        if not parts.index_build.is_done:
            parts.health.settled.set()
        gate, moved = parts.context.gate, parts.migration.moved_below
        await parts.index_build.run(parts.families(), moved, gate, parts.health.stall)

    def _show_state(self) -> None:
        view, applied = self._parts.views.view, self._parts.changelog.log.applied
        if view is None or view.applied != applied:
            self._parts.show_state(applied)
