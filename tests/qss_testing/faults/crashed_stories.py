"""Stories that go on after a crash at some step of a story without faults.

A crash at a step leaves the volume as it was before that step. So all crashes share one telling of
the story up to them: it keeps what the volume has before each step.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from qss_core.model import Offset, PartitionId, StoreAssignment
from qss_store.replicas.replica import Replica
from qss_store.replicas.volume.kept_files import SyncMark, Volume
from qss_testing.faults.faulty_engine import Faults, MemoryDisk, Written
from qss_testing.reference.batch_story import Story


@dataclass(frozen=True, slots=True, kw_only=True)
class _Moment:
    """A story before one of its steps."""

    disk: Mapping[Path, Written]
    files: Mapping[str, bytes]  # By name: those that the pod keeps beside its databases.
    marks: Mapping[PartitionId, SyncMark]
    acknowledged: int
    runs: int
    assignment: StoreAssignment


class _WatchedFaults(Faults):
    """Calls `before_step` before each step, whoever takes it."""

    before_step: Callable[[], None]

    def step(self) -> None:
        self.before_step()
        super().step()


@dataclass(slots=True)
class CrashedStories:
    """The story that all crashes share, and its moments."""

    story: Story
    disk: MemoryDisk = field(default_factory=MemoryDisk)
    _moments: list[_Moment] = field(default_factory=list)

    @classmethod
    async def told(cls, story: Story) -> "CrashedStories":
        """Tells the story without a fault, in memory; readers look at each step."""
        crashed = cls(story)
        faults = _WatchedFaults()
        faults.before_step = crashed._keep
        assert await story.tell(crashed.disk.open, faults)
        assert faults.steps == crashed.steps
        await story.stop()
        return crashed

    @property
    def steps(self) -> int:
        """The number of steps at which a crash is possible."""
        return len(self._moments)

    def _keep(self) -> None:
        story = self.story
        assert story.services is not None
        files = {one.name: one.read_bytes() for one in story.directory.iterdir() if one.is_file()}
        self._moments.append(
            _Moment(
                disk=self.disk.written(),
                files=files,
                marks=_marks(story.services.pod.registry.replicas),
                acknowledged=story.acknowledged,
                runs=story.runs,
                assignment=story.assignment,
            )
        )

    def crashed_at(self, step: int, *, loses_power: bool) -> tuple[Story, MemoryDisk]:
        """The story after a crash at a step, counted from 1, and what the disk has then.

        The volume has the newest sync marks that the pod may have kept before the crash. There is
        one such story at a time: they share a directory.
        """
        then = self._moments[step - 1]
        disk = self.disk.crashed_at(then.disk, loses_power=loses_power)
        story = replace(
            self.story, acknowledged=then.acknowledged, runs=then.runs, uncommitted_seen=0, _read={}
        )
        story.assignment = then.assignment
        self._put_back(then)
        return story, disk

    def _put_back(self, then: _Moment) -> None:
        directory = self.story.directory
        for one in directory.iterdir():
            if one.is_file():
                one.unlink()
        for name, data in then.files.items():
            (directory / name).write_bytes(data)
        if then.files:
            Volume(directory).keep_marks(then.assignment.definition.store_id, then.marks)


def _marks(replicas: Mapping[PartitionId, Replica]) -> dict[PartitionId, SyncMark]:
    """The newest marks that a pod may keep."""
    ends = {number: replica.changelog.durable_end for number, replica in replicas.items()}
    return {
        number: SyncMark(end=end, digest=replicas[number].changelog.digest(Offset(end - 1)))
        for number, end in ends.items()
        if end
    }
