"""The faults of a run: which, when and for how long, all chosen by the seed."""

import asyncio
from collections.abc import Awaitable, Callable
from random import Random  # noqa: TID251 seeded by the story.

from msgspec import structs

from qss_core.formats.values import Format
from qss_core.model import Epoch, PartitionId
from qss_simulation.parts.disk import DatabaseFiles
from qss_simulation.world import World

_OF_STANDBYS = 0.2
_OF_FORMAT = 0.7
_FORMATS = (Format.Timestamped, Format.TimestampedWithHeaders)  # Both keep the times of rows.
_RAISED = 0.5
_IN_TROUBLE = 0.5  # The pod has a slow disk, and loses its power soon.
_AWAY_S, _LONG_AWAY_S, _LONG_AWAY = 0.7, 6.0, 0.4
_COPIED = 0.7
_WHOLE = 0.5  # The share of volumes that go back with all their databases.
_VOLUME_LOOKS = 20
_REBUILT_LOOKS = 200
_LOOK_S, _LOOKS = 0.01, 500
_PAUSE_S = 30.0  # Longer than any timeout of the settings.
KINDS = (
    "crash",
    "power",
    "pause",
    "cut",
    "isolate",
    "blackout",
    "slow-disk",
    "full-disk",
    "operator",
    "api",
    "messages",
    "clock",
    "epoch",
    "edit",
    "old-volume",
    "hole",
    "again",
    "index",
    "old-status",
)
# A volume that went back is found by asking other pods: nothing else keeps them from answering.
_RARE = ("old-volume", "hole", "again", "index", "old-status")
_WITH_OLD_VOLUMES = ("old-volume", "operator", "api", "clock", "epoch", "edit")
# An older status is found where the pods answer that hold newer configurations.
_WITH_OLD_STATUS = ("old-status", "operator", "clock", "edit", "messages")
_OLD_STATUS, _STATUSES = 0.2, 8


class Faults:
    """Makes faults until it is told to stop, then heals everything."""

    def __init__(self, world: World, random: Random) -> None:
        self._world = world
        self._random = random
        self._kinds: dict[str, Callable[[], Awaitable[None]]] = {
            kind: getattr(self, f"_{kind.replace('-', '_')}") for kind in KINDS
        }
        wanted = [kind for kind in self._kinds if kind not in _RARE]
        if random.random() < 0.2:
            is_of_status = random.random() < _OLD_STATUS
            wanted = list(_WITH_OLD_STATUS if is_of_status else _WITH_OLD_VOLUMES)
        else:
            wanted += random.choice([[], [], ["hole"], ["again"]])
        if world.api.resource.spec.store.custom is not None:
            wanted.append("index")
        self._wanted = wanted
        self._swapping = asyncio.Lock()  # One volume at a time: the others are its witnesses.

    async def run(self, until_s: float) -> None:
        """Makes one fault after the other, and some at the same time."""
        async with asyncio.TaskGroup() as group:
            while self._world.loop.now_s < until_s:
                await asyncio.sleep(self._random.expovariate(1 / 1.5))
                kind = self._random.choice(self._wanted)
                group.create_task(self._one(kind))

    async def _one(self, kind: str) -> None:
        self._world.trace.note(f"fault-{kind}")
        await self._kinds[kind]()

    def heal(self) -> None:
        """Ends all faults, and starts what does not run."""
        self._world.heal()

    def _pod(self) -> int:
        return self._random.randrange(self._world.pods)

    async def _wait(self, mean_s: float) -> None:
        await asyncio.sleep(self._random.expovariate(1 / mean_s))

    async def _crash(self) -> None:
        number = self._pod()
        self._world.end(f"pod-{number}")
        await self._stay_away()
        self._world.start_pod(number)

    async def _power(self) -> None:
        number = self._pod()
        self._world.lose_power(number, holes=False)
        await self._stay_away()
        self._world.start_pod(number)

    async def _stay_away(self) -> None:
        """Mostly a moment; at times until standbys have taken over."""
        is_long = self._world.standbys > 0 and self._random.random() < _LONG_AWAY
        await self._wait(_LONG_AWAY_S if is_long else _AWAY_S)

    async def _pause(self) -> None:
        host = self._random.choice(self._world.hosts)
        self._world.pause(host)
        await asyncio.sleep(self._random.choice([0.01, 1.0, _PAUSE_S]))
        self._world.resume(host)

    async def _cut(self) -> None:
        one, other = self._random.sample(self._world.hosts, 2)
        ways = {(one, other)} | ({(other, one)} if self._random.random() < 0.5 else set())
        self._world.network.faults.cut |= ways
        await self._wait(3.0)
        self._world.network.faults.cut -= ways

    async def _isolate(self) -> None:
        """A pod is cut off all other machines; writers and readers still reach it."""
        host, faults = f"pod-{self._pod()}", self._world.network.faults
        ways = {way for one in self._world.hosts for way in ((host, one), (one, host))}
        faults.cut |= ways
        await self._wait(4.0)
        faults.cut -= ways

    async def _blackout(self) -> None:
        """All pods' machines lose power at once; they come back one after the other."""
        for number in range(self._world.pods):
            self._world.lose_power(number, holes=False)
        for number in self._random.sample(range(self._world.pods), self._world.pods):
            await self._wait(0.3)
            self._world.start_pod(number)

    async def _slow_disk(self) -> None:
        host = f"pod-{self._pod()}"
        self._world.loop.work_s[host] = self._random.choice([0.05, 2.0])
        await self._wait(3.0)
        self._world.loop.work_s.pop(host, None)

    async def _full_disk(self) -> None:
        disk = self._world.disks[self._pod()]
        disk.is_full = True
        await self._wait(2.0)
        disk.is_full = False

    async def _operator(self) -> None:
        self._world.end("operator")
        await self._wait(1.0)
        self._world.start_operator()

    async def _api(self) -> None:
        faults = self._world.api.faults
        if self._random.random() < 0.5:
            faults.is_away = True
        else:
            faults.lost_answer = faults.stale_read = 0.3
        await self._wait(3.0)
        faults.heal()

    async def _messages(self) -> None:
        faults = self._world.network.faults
        faults.lost, faults.repeated, faults.late = (self._random.choice([0.0, 0.1]) for _ in "123")
        await self._wait(3.0)
        faults.lost = faults.repeated = faults.late = 0.0

    async def _clock(self) -> None:
        host = self._random.choice(self._world.hosts)
        self._world.clocks[host].jumped_s += self._random.choice([-3600.0, -1.0, 1.0, 3600.0])
        await asyncio.sleep(0)

    async def _epoch(self) -> None:
        """Another operator published higher epochs, as a failover does."""
        number = self._pod()
        host, is_in_trouble = f"pod-{number}", self._random.random() < _IN_TROUBLE
        if is_in_trouble:
            self._world.loop.work_s[host] = 2.0
            await self._wait(1.0)
        before = self._world.epochs(host)
        self._raise_epochs()
        if is_in_trouble:
            for _ in range(_LOOKS):
                await asyncio.sleep(_LOOK_S)
                if self._world.epochs(host) != before:
                    break
            await self._wait(0.1)
            self._world.loop.work_s.pop(host, None)
            self._world.lose_power(number, holes=False)
            await self._wait(0.5)
            self._world.start_pod(number)

    def _raise_epochs(self) -> None:
        api = self._world.api
        status = api.resource.status
        # Before the first batch the store is being made: an empty volume is no loss then.
        is_made = bool(self._world.histories.present.acknowledged)
        if status is None or status.assignment is None or not is_made:
            return
        raised = tuple(
            structs.replace(one, epoch=Epoch(one.epoch + (self._random.random() < _RAISED)))
            for one in status.assignment
        )
        api.edit_status(structs.replace(status, assignment=raised))

    async def _edit(self) -> None:
        """A person edits the resource: rows move to another format, or logs are cut elsewhere."""
        api, spec = self._world.api, self._world.api.resource.spec
        if spec.effective_standbys < spec.replicas - 1 and self._random.random() < _OF_STANDBYS:
            more = spec.effective_standbys + 1
            self._world.trace.note("standbys", str(more))
            api.edit(structs.replace(spec, standbys=more))
        elif self._random.random() < _OF_FORMAT:
            wanted = self._random.choice(_FORMATS)
            self._world.trace.note("format", wanted)
            rows = structs.replace(spec.store, format=wanted)
            api.edit(structs.replace(spec, store=rows))
        else:
            kept = self._random.choice(["1", "2000", "1Gi"])
            changelog = structs.replace(spec.changelog, retention_bytes=kept)
            api.edit(structs.replace(spec, changelog=changelog))
        await asyncio.sleep(0)

    async def _old_volume(self) -> None:
        """A database is put back to an older copy; whoever reads the report undoes that."""
        async with self._swapping:
            if self._random.random() < _WHOLE:
                await self._swap_volume()
            else:
                await self._swap_one()

    async def _swap_volume(self) -> None:
        """A whole volume goes back, with the pod's own notes of what it had, or is lost."""
        number = self._pod()
        if not self._may_lose_one():
            return
        world, host = self._world, f"pod-{number}"
        older = world.volume(number, is_synced=True) if self._random.random() < _COPIED else None
        await self._wait(2.0)
        if not world.histories.present.acknowledged or not self._may_lose_one():
            return
        if not world.end(host):
            return
        newer = world.volume(number, is_synced=False)
        world.put_volume(number, older)
        world.start_pod(number)
        world.trace.note("volume-lost" if older is None else "volume-went-back", host)
        if self._is_made_anew:
            await self._until_redundant()
            return
        for _ in range(_VOLUME_LOOKS):
            await self._wait(0.5)
            if world.serves_all(host) is not None:
                break
        if not world.serves_all(host):
            world.end(host)
            world.put_volume(number, newer)
            world.start_pod(number)

    async def _swap_one(self) -> None:
        number = self._pod()
        disk, host = self._world.disks[number], f"pod-{number}"
        if not disk.databases() or not self._may_lose_one():
            return
        name = self._random.choice(disk.databases())
        older = disk.synced_copy(name) if self._random.random() < _COPIED else DatabaseFiles()
        await self._wait(2.0)
        if not self._may_lose_one() or not self._world.end(host):
            return
        newer = disk.swap(name, older)
        self._world.trace.note("database-went-back" if older.log else "database-lost", host)
        self._world.start_pod(number)
        if self._is_made_anew:
            await self._until_redundant()
            return
        await self._wait(3.0)
        while (serves_all := self._world.serves_all(host)) is None:
            await self._wait(0.5)
        if not serves_all:
            self._world.end(host)
            disk.swap(name, newer)
            self._world.start_pod(number)

    async def _hole(self) -> None:
        """Power is lost in the middle of the unsynced pages; a person accepts the loss.

        No sync covered what is lost, so nobody was told that it is there.
        """
        async with self._swapping:
            await self._lose_pages()

    def _may_lose_one(self) -> bool:
        """Whether a volume may be lost: the other replicas of its partitions are in sync.

        Without standbys a person undoes the loss. In a run with other numbers of pods nobody does:
        one pod alone has no witnesses, and partitions move meanwhile.
        """
        world = self._world
        if world.is_scaled:
            return world.is_redundant and world.copies > 1
        return not world.standbys or world.is_redundant

    @property
    def _is_made_anew(self) -> bool:
        """Whether the store makes a lost replica anew, from another one."""
        return self._world.is_scaled or self._world.standbys > 0

    async def _until_redundant(self, lost_pages: str | None = None) -> None:
        """Waits until the lost replicas are made anew; a partition's data survives one loss.

        The pod that `lost_pages` may be the only one in sync, as another one left the set at the
        same moment: then a person accepts the loss.
        """
        for _ in range(_REBUILT_LOOKS):
            await self._wait(0.5)
            if self._world.is_redundant:
                return
            if lost_pages is not None:
                self._accept(lost_pages, is_last=True)

    def _accept(self, host: str, *, is_last: bool) -> None:
        """A person accepts what a pod reports as lost, or only last copies."""
        own = int(host.removeprefix("pod-"))
        entries = {one.partition: one for one in self._world.assignment}
        lost = [
            f"{entry.partition}@{entry.epoch}"
            for entry in (entries[PartitionId(one)] for one in self._world.lost(host))
            if not is_last or entry.in_sync == (own,)
        ]
        if lost:
            self._world.trace.note("accept", ",".join(lost))
            self._world.api.annotate(",".join(lost))

    async def _lose_pages(self) -> None:
        number = self._pod()
        host = f"pod-{number}"
        if not self._may_lose_one():
            return
        is_made_anew = self._is_made_anew  # Standbys that are asked for later have no rows.
        self._world.lose_power(number, holes=True)
        await self._wait(1.0)
        self._world.trace.note("pages-lost", host)
        self._world.start_pod(number)
        if is_made_anew:
            await self._until_redundant(host)
            return
        while not self._world.serves_all(host):
            await self._wait(0.5)
            self._accept(host, is_last=False)

    async def _again(self) -> None:
        """The store is deleted with its volumes, and made again under its name."""
        async with self._swapping:
            if self._random.random() < 0.5:
                self._world.end("operator")
            self._world.delete_store()
            await self._wait(0.5)
            self._world.start_operator()
            self._world.make_store_again()

    async def _old_status(self) -> None:
        """Somebody restores an older status, while every pod holds the newest configurations."""
        api = self._world.api
        if self._world.histories.present.acknowledged and self._world.is_known:
            api.restore_status(self._random.randint(1, _STATUSES))
            self._world.trace.note("status-went-back")
        await asyncio.sleep(0)

    async def _index(self) -> None:
        """Pods get an image in which the store type has another version."""
        self._world.index_version += 1
        for number in range(self._world.pods):
            self._world.end(f"pod-{number}")
            await self._wait(0.1)
            self._world.start_pod(number)
