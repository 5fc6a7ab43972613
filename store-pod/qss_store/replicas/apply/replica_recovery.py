"""Plans and performs the steps from an opened database to a replica that serves.

One replica: `replicas.pod` recovers a pod, replica by replica, when it starts. The steps are
planned from the state of the database, and performed in order. After a full disk the
plan is made again; a step that was done before then changes nothing.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import Enum, auto
from typing import assert_never

from qss_store.replicas.apply.replica_parts import ReplicaParts
from qss_store.storage.commit_rows.commit_writer import APPLYING, drop_families
from qss_store.storage.engine import META


class RecoveryStep(Enum):
    """One step of a recovery."""

    BEGIN_INDEX = auto()  # Notes that indexes have to be made, before old indexes are dropped.
    KEEP_CONFIGURATION = auto()
    SYNC = auto()  # Then no state that a crash could bring back needs the dropped families.
    OPEN_FAMILIES = auto()
    DROP_LEFTOVERS = auto()
    BUILD_INDEX = auto()
    SHOW_STATE = auto()
    APPLY_TAIL = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The state of a replica's database when it is opened."""

    is_configuration_kept: bool
    is_commit_unfinished: bool  # Some slices of a commit are written, others are not.


def plan_recovery(found: Found) -> tuple[RecoveryStep, ...]:
    """The steps to a replica that serves.

    Rows of an unfinished commit are already in the families: then the first state that readers see
    is the one after the log's tail, which has the commit.
    """
    return (
        RecoveryStep.BEGIN_INDEX,
        *(() if found.is_configuration_kept else (RecoveryStep.KEEP_CONFIGURATION,)),
        RecoveryStep.SYNC,
        RecoveryStep.OPEN_FAMILIES,
        RecoveryStep.DROP_LEFTOVERS,
        RecoveryStep.BUILD_INDEX,
        *(() if found.is_commit_unfinished else (RecoveryStep.SHOW_STATE,)),
        RecoveryStep.APPLY_TAIL,
        RecoveryStep.SHOW_STATE,
    )


class Recovery:
    """Recovers one replica; `is_done` is true when the tail of its log is applied."""

    def __init__(self, parts: ReplicaParts, apply_tail: Callable[[], Awaitable[None]]) -> None:
        """`apply_tail` applies all entries under the high watermark."""
        self.is_done = False
        self._parts = parts
        self._apply_tail = apply_tail

    async def run(self) -> None:
        """Performs all steps. After DiskFullError call it again when the disk has space."""
        parts = self._parts
        is_kept = parts.is_configuration_kept
        if is_kept:
            parts.changelog.written_epoch = parts.changelog.log.configuration.epoch
        found = Found(
            is_configuration_kept=is_kept,
            is_commit_unfinished=self._is_commit_unfinished,
        )
        for step in plan_recovery(found):
            await self._perform(step)
        self.is_done = True
        parts.health.settled.set()

    @property
    def _is_commit_unfinished(self) -> bool:
        return self._parts.engine.get(META, APPLYING) is not None

    async def _perform(self, step: RecoveryStep) -> None:
        parts = self._parts
        match step:
            case RecoveryStep.BEGIN_INDEX:
                parts.index_build.begin(parts.families())
            case RecoveryStep.KEEP_CONFIGURATION:
                parts.write_configuration(parts.changelog.log.configuration)
            case RecoveryStep.SYNC:
                await parts.changelog.sync()
            case RecoveryStep.OPEN_FAMILIES:
                parts.families().open(parts.engine)
            case RecoveryStep.DROP_LEFTOVERS:
                await self._drop_leftovers()
            case RecoveryStep.BUILD_INDEX:
                await self._build_index()
            case RecoveryStep.SHOW_STATE:
                self._show_state()
            case RecoveryStep.APPLY_TAIL:
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
        """Makes missing index rows. This takes long, so the start of the replica ends before."""
        parts = self._parts
        if not parts.index_build.is_done:
            parts.health.settled.set()
        gate, moved = parts.context.gate, parts.migration.moved_below
        await parts.index_build.run(parts.families(), moved, gate, parts.health.stall)

    def _show_state(self) -> None:
        view, applied = self._parts.views.view, self._parts.changelog.log.applied
        if view is None or view.applied != applied:
            self._parts.show_state(applied)
