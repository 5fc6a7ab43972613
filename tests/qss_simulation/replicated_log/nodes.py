"""The machines of a replicated log, its messages, and the rules that can be taken out."""

from collections.abc import Callable, Coroutine, Generator
from dataclasses import dataclass, field
from typing import Any

from qss_core.model import Offset, Ordinal, PartitionConfiguration, Role, StoreSettings
from qss_simulation.parts.disk import DatabaseFiles, SimulatedEngine
from qss_store.replicas.changelog.changelog import Changelog
from qss_store.replication import active, follower
from qss_store.replication import log as logs
from qss_store.replication.follower import Append, PointAt, StepBack, Take
from qss_store.replication.log import Log

_CUT_ALL = StoreSettings(changelog_retention_bytes=0)


@dataclass(frozen=True, slots=True)
class Guards:
    """The rules; each default is the product's."""

    receive: Callable[[Log, PointAt, Append], Take | StepBack] = follower.receive
    watermark: Callable[[Log], Log] = lambda log: log  # Called after each acknowledgement.
    reconfigure: Callable[[Log, PartitionConfiguration], Log] = logs.reconfigure
    send_until: Callable[[Log, Ordinal], Offset] = active.send_until
    counts_learners: bool = True
    is_caught_up: Callable[[Log, Ordinal, Offset], bool] = active.is_caught_up
    remembers_learners: bool = True
    drops_tail: bool = False  # A new active begins with what is under its watermark.
    promotes_any: bool = False
    acts_after_restart: bool = False
    acks_before_sync: bool = False


class LogError(AssertionError):
    """The replicas disagree, or an acknowledged entry is lost."""


@dataclass(slots=True)
class Node:
    """A replica's machine; without a changelog its process does not run."""

    pod: Ordinal
    configuration: PartitionConfiguration  # Durable.
    files: DatabaseFiles = field(default_factory=DatabaseFiles)
    changelog: Changelog | None = None
    peers: active.Peers | None = None
    may_act: bool = True
    counted_at: dict[Ordinal, Offset] = field(default_factory=dict)  # Learners, in this epoch.
    durable_end: int = 0
    waiting: list["Message"] = field(default_factory=list)  # Acknowledgements until a sync.
    syncing: "Syncing | None" = None

    @property
    def log(self) -> Changelog:
        assert self.changelog is not None, "the process runs"
        return self.changelog

    @property
    def acts(self) -> bool:
        return self.changelog is not None and self.log.log.role is Role.ACTIVE and self.may_act


@dataclass(frozen=True, slots=True)
class Message:
    kind: str
    sender: Ordinal
    receiver: Ordinal
    content: Any


class Disk:
    """The disk under a SimulatedEngine; `ended` is called when a sync ends."""

    is_full = False
    syncs = 0

    def __init__(self) -> None:
        self.ended: Callable[[], None] = lambda: None

    @property
    def trace(self) -> "Disk":
        return self

    loop = trace

    def note(self, *_: object) -> None: ...

    def at_end(self, effect: Callable[[], None]) -> None:
        self.ended = effect


class _Rest:
    """Ends a turn of a coroutine."""

    def __await__(self) -> Generator[None, None, None]:
        yield


class HalfSyncs:
    """A sync covers what was written before it began, and ends a turn later."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk

    async def sync(self, engine: SimulatedEngine) -> None:
        engine.sync()
        ended = self._disk.ended
        await _Rest()
        ended()


@dataclass(slots=True)
class Syncing:
    """A sync that has begun, and the acknowledgements that it allows."""

    work: Coroutine[Any, Any, None]
    end: int
    acknowledgements: list["Message"]


def engine_of(log: Changelog) -> SimulatedEngine:
    """The engine of a changelog."""
    engine = log.engine
    assert isinstance(engine, SimulatedEngine), "the nodes were made so"
    return engine


def is_done(work: Coroutine[Any, Any, None]) -> bool:
    """Runs a turn of a coroutine; returns whether it has ended."""
    try:
        work.send(None)
    except StopIteration:
        return True
    return False


def run_now(work: Coroutine[Any, Any, None]) -> None:
    """Runs a coroutine that syncs, to its end."""
    while not is_done(work):
        pass


def cut_all(log: Changelog) -> None:
    while log.cut(_CUT_ALL, None):
        pass
