"""Keeps one replica's changelog in its engine; `replication.log` has the pure rules."""

from collections.abc import Mapping
from dataclasses import dataclass

from msgspec.structs import replace
from zlib_ng.zlib_ng import crc32

from qss_client.clock import Clock
from qss_core.errors import CorruptionError, MalformedRequestError
from qss_core.model import (
    Epoch,
    Offset,
    Ordinal,
    PartitionConfiguration,
    Role,
    StoreSettings,
    Wire,
)
from qss_core.wire.messages import decode, encode
from qss_store.replicas.changelog.retention import ChangelogRetention
from qss_store.replicas.changelog.stored_entries import (
    delete_entries,
    is_whole,
    payload_size_of,
    put_entry,
)
from qss_store.replicas.group_sync import GroupSync
from qss_store.replication import active
from qss_store.replication import log as logs
from qss_store.replication.digest import NO_DIGEST, Digest, LogPoint, digest_after
from qss_store.replication.entries import (
    Payload,
    decode_entry,
    decode_head,
    decode_offset,
    encode_entry,
    encode_offset,
)
from qss_store.replication.follower import SentEntry, Take
from qss_store.storage.commit_rows.commit_writer import APPLIED, APPLYING
from qss_store.storage.engine import CHANGELOG, META, PAYLOAD, Batch, Engine
from qss_store.transactions.commands import (
    Command,
    LoggedCommand,
    command_of,
    entry_of,
    payload_checksum_of,
)

_CUT = b"changelog-cut"
_CUT_DIGEST = b"changelog-cut-digest"  # A key of its own: an older program does not know it.
_ASKED = b"learners-asked-for"


class _Cut(Wire, frozen=True, kw_only=True):
    """The last entry that was cut: a log without entries continues after it."""

    offset: Offset
    epoch: Epoch
    bytes_after: int  # All bytes that were appended up to the end of that entry.


class _Asked(Wire, frozen=True, kw_only=True):
    """The learners that the active of an epoch asked for."""

    epoch: Epoch
    learners: tuple[Ordinal, ...]


@dataclass(eq=False, slots=True)
class _Syncing:
    """A sync that has begun: entries below `end` are durable when it ends, unless they are cut."""

    end: Offset


class Changelog:
    """The log's state, `log`, and its entries on disk.

    `written_epoch` is the epoch of the configuration in the database, and `kept_epoch` that of the
    one that is durable. `may_act` is false in an active that has started again: it has to get a new
    epoch first, since it does not know which entries it has sent in this one. A sole replica sends
    nothing, and an empty database has sent nothing.
    """

    def __init__(
        self,
        engine: Engine,
        pod: Ordinal,
        configuration: PartitionConfiguration,
        meta: Mapping[bytes, bytes],
        clock: Clock,
        syncs: GroupSync,
    ) -> None:
        """Reads the state of the log; the high watermark begins at the applied offset.

        Raises CorruptionError where entries that are not applied are missing.
        """
        self.engine = engine
        self._clock = clock
        self._syncs = syncs
        applied = decode_offset(meta.get(APPLIED, encode_offset(0)))
        cut = decode(meta[_CUT], _Cut) if _CUT in meta else None
        first = next(engine.scan(CHANGELOG), None)
        newest = engine.view(CHANGELOG)
        last = next(newest.scan(reverse=True), None)
        newest.close()
        behind_cut = applied if cut is None else Offset(max(applied, cut.offset + 1))
        self.log = logs.Log(
            pod=pod,
            configuration=configuration,
            start=decode_offset(first[0]) if first else behind_cut,
            end=Offset(decode_offset(last[0]) + 1) if last else behind_cut,
            watermark=_watermark_of(meta, applied),
            applied=applied,
            counted=_asked_for(meta, configuration.epoch),
        )
        if not self.log.start <= applied <= self.log.end:
            raise CorruptionError(
                f"the changelog holds the entries {self.log.start} to {self.log.end - 1} and "
                f"{applied} is the next one to apply: entries are missing"
            )
        digest = Digest(meta.get(_CUT_DIGEST, NO_DIGEST))
        self._before_start = LogPoint(self.log.start, cut.epoch if cut else Epoch(0), digest)
        self._bytes_total = cut.bytes_after if cut else 0
        self._last: bytes | None = None  # The last entry; None where the log has none.
        if last is not None:
            self._continue_behind(last[1])
        self.written_epoch = self.kept_epoch = Epoch(0)
        self._syncing: list[_Syncing] = []
        # Another replica exists, or may have existed, whose lease has to run out first.
        is_alone = len(configuration.replicas) == 1
        self.may_act = not meta or (logs.is_sole(self.log) and (is_alone or self.has_begun))
        self.retention = ChangelogRetention(engine, clock, self.log.start)

    @property
    def owes_barrier(self) -> bool:
        """Whether the next entry has to be a Barrier."""
        return self.may_act and logs.owes_barrier(self.log, self._end_epoch)

    @property
    def has_begun(self) -> bool:
        """Whether this active has written entries in the held epoch, so that it may act in it."""
        is_active = self.log.role is Role.ACTIVE
        return is_active and self._end_epoch == self.log.configuration.epoch

    @property
    def _end_epoch(self) -> Epoch:
        last = self._last
        return self._before_start.epoch if last is None else Epoch(decode_head(last).epoch)

    @property
    def end(self) -> LogPoint:
        """The place behind the last entry."""
        digest = self._before_start.digest if self._last is None else digest_after(self._last)
        return LogPoint(self.log.end, self._end_epoch, digest)

    def append(self, command: Command, payload: bytes | memoryview) -> tuple[Offset, LoggedCommand]:
        """Writes an entry, not durably. Raises DiskFullError; then no entry was written."""
        logged = LoggedCommand(self.log.configuration.epoch, self._clock.wall_ms(), command)
        log, offset = logs.append(self.log)
        if len(log.configuration.replicas) > 1:  # Only other replicas compare digests.
            held = Payload(len(payload), payload_checksum_of(command, payload))
            entry = entry_of(logged, self._bytes_total, self.end.digest, held)
        else:
            entry = entry_of(logged, self._bytes_total)
        data = encode_entry(entry)
        batch = self.engine.batch()
        put_entry(batch, offset, data, payload)
        self.engine.write(batch)
        self.log = log
        self._bytes_total += len(data) + len(payload)
        self._last = data
        return offset, logged

    async def count(self, learner: Ordinal) -> None:
        """From now on the learner counts in this epoch, after a restart, too.

        Ask the operator only afterwards: a sole replica that forgot the learner would acknowledge
        entries that the learner lacks, and the operator would still take it into the in-sync set.
        """
        log = active.count(self.log, learner)
        asked = _Asked(epoch=log.configuration.epoch, learners=tuple(sorted(log.counted)))
        batch = self.engine.batch()
        batch.put(META, _ASKED, encode(asked))
        self.engine.write(batch)
        self.log = log
        await self.sync()

    def take(self, taken: Take) -> None:
        """Writes entries of the active as they are, in place of own ones; not durably.

        Raises DiskFullError and MalformedRequestError for damaged rows; then nothing was written.
        Raises CorruptionError where an entry under the watermark would be cut.
        """
        if not all(map(is_whole, taken.entries)):
            raise MalformedRequestError("the payload of an entry is missing or damaged")
        log, batch = self.log, self.engine.batch()
        if taken.cut_from is not None:
            log = logs.cut_tail(log, taken.cut_from)
            delete_entries(batch, taken.cut_from, self.log.end)
        for offset, entry in enumerate(taken.entries, start=taken.first):
            put_entry(batch, offset, entry.data, entry.payload)
            log, _ = logs.append(log)
        if taken.cut_from is not None:
            self._cut_from(taken.cut_from, batch)
        elif taken.entries:
            self.engine.write(batch)
        self.log = logs.learn_watermark(log, taken.watermark)
        if taken.entries:
            self._continue_behind(taken.entries[-1].data)

    def _cut_from(self, offset: Offset, batch: Batch) -> None:
        """Writes a batch that cuts the entries from `offset` on; the log ends there."""
        bytes_before = decode_head(self._data(offset)).bytes_before
        last = self._data(Offset(offset - 1)) if offset > self.log.start else None
        self.engine.write(batch)
        self._bytes_total, self._last = bytes_before, last
        for one in self._syncing:
            one.end = min(one.end, offset)

    def point_at(self, offset: Offset) -> LogPoint | None:
        """The place before an entry; None where the log does not reach there."""
        if offset == self.log.end:
            return self.end
        if offset == self.log.start:
            return self._before_start
        if not self.log.start < offset < self.log.end:
            return None
        before = self._data(Offset(offset - 1))
        return LogPoint(offset, Epoch(decode_head(before).epoch), digest_after(before))

    def entries_between(self, first: Offset, end: Offset, bytes_max: int) -> tuple[SentEntry, ...]:
        """Entries to send, in their order: the first one, and further ones up to a size.

        Raises CorruptionError where an entry is missing.
        """
        found: list[SentEntry] = []
        size = 0
        for number in range(first, end):
            data = self._data(Offset(number))
            size += len(data) + payload_size_of(decode_entry(data))
            if found and size > bytes_max:
                break
            payload = self.engine.get(PAYLOAD, encode_offset(number)) or b""
            found.append(SentEntry(data, payload))
            if not is_whole(found[-1]):
                raise CorruptionError(f"the rows of entry {number} are missing or damaged")
        return tuple(found)

    def _continue_behind(self, data: bytes) -> None:
        """Notes the log's end: the entry with these bytes is the last one."""
        entry = decode_entry(data)
        self._bytes_total = entry.bytes_before + len(data) + payload_size_of(entry)
        self._last = data

    def _data(self, offset: Offset) -> bytes:
        data = self.engine.get(CHANGELOG, encode_offset(offset))
        if data is None:
            raise CorruptionError(f"entry {offset} is missing from the changelog")
        return data

    def read(self, offset: Offset) -> LoggedCommand:
        """The command of an entry. Raises CorruptionError where the entry is missing."""
        return command_of(decode_entry(self._data(offset)))

    def digest(self, offset: Offset) -> int | None:
        """A checksum of an entry's bytes without its payload; None where the entry is missing."""
        data = self.engine.get(CHANGELOG, encode_offset(offset))
        return None if data is None else crc32(data)

    @property
    def durable_end(self) -> Offset:
        """The offset below which this pod has synced all entries."""
        return self.log.durable.get(self.log.pod, Offset(0))

    @property
    def settled_end(self) -> Offset:
        """The offset below which all entries are synced and no active will replace one."""
        return min(self.durable_end, self.log.watermark)

    @property
    def owes_sync(self) -> bool:
        """Whether entries, or the configuration, are not durable yet."""
        return self.durable_end < self.log.end or self.owes_epoch

    @property
    def owes_epoch(self) -> bool:
        """Whether the configuration is not durable yet."""
        return self.kept_epoch < self.written_epoch

    async def sync(self) -> None:
        """Makes all earlier writes durable, entries among them."""
        syncing, written = _Syncing(self.log.end), self.written_epoch
        self._syncing.append(syncing)
        try:
            await self._syncs.sync(self.engine)
        finally:
            self._syncing.remove(syncing)
        self.kept_epoch = max(self.kept_epoch, written)
        self.log = logs.acknowledge(self.log, self.log.pod, syncing.end)

    def apply_unsynced(self, end: Offset) -> None:
        """Allows to apply entries below `end` before a sync: their apply ends with one."""
        self.log = logs.apply_unsynced(self.log, end)

    def applied(self, offset: Offset) -> None:
        """Notes that an entry was applied."""
        self.log = logs.apply(self.log, offset)

    # --- Cutting

    @property
    def is_due_to_cut(self) -> bool:
        """Whether a cut was put off, or enough bytes were appended for another cut."""
        return self.retention.is_due(self._bytes_total)

    def cut(self, settings: StoreSettings, open_floor: Offset | None) -> bool:
        """Deletes some entries beyond the retention; returns whether more may be left.

        Entries from `open_floor` on stay. While an entry is being applied, the cut is put off.
        """
        if self.log.applied < self.log.watermark:
            self.retention.put_off(self._bytes_total)
            return False
        point = self.retention.next_cut(self.log, self._bytes_total, settings, open_floor)
        if point is not None:
            self._delete_below(point)
            self.retention.has_cut(point)
        return self.retention.is_cut_owed

    def _delete_below(self, point: Offset) -> None:
        last = self._data(Offset(point - 1))
        behind = self.engine.get(CHANGELOG, encode_offset(point))
        cut = _Cut(
            offset=Offset(point - 1),
            epoch=Epoch(decode_head(last).epoch),
            bytes_after=decode_head(behind).bytes_before if behind else self._bytes_total,
        )
        digest = digest_after(last)
        batch = self.engine.batch()
        delete_entries(batch, self.log.start, point)
        batch.put(META, _CUT, encode(cut))
        batch.put(META, _CUT_DIGEST, digest)
        self.engine.write(batch, makes_room=True)
        self.log = replace(self.log, start=point)
        self._before_start = LogPoint(point, cut.epoch, digest)
        if self.log.start == self.log.end:
            self._last = None


def _asked_for(meta: Mapping[bytes, bytes], epoch: Epoch) -> frozenset[Ordinal]:
    """The learners that this replica asked for in this epoch, before it started."""
    asked = decode(meta[_ASKED], _Asked) if _ASKED in meta else None
    return frozenset(asked.learners if asked is not None and asked.epoch == epoch else ())


def _watermark_of(meta: Mapping[bytes, bytes], applied: Offset) -> Offset:
    """The watermark that is known at a start: an entry whose apply had begun was under it."""
    applying = decode_offset(meta[APPLYING]) if APPLYING in meta else None
    return applied if applying is None else Offset(max(applied, applying + 1))
