"""Keeps one replica's changelog in its engine; `replication.log` has the pure rules."""

import zlib
from collections.abc import Mapping
from itertools import islice

from msgspec.structs import replace

from qss_core.errors import CorruptionError
from qss_core.model import Epoch, Offset, Ordinal, PartitionConfiguration, StoreSettings, Wire
from qss_core.wire.messages import decode, encode
from qss_store.replicas.group_sync import GroupSync
from qss_store.replication import active
from qss_store.replication import log as logs
from qss_store.replication.digest import BEGINNING, NO_DIGEST, Digest, LogPoint, digest_after
from qss_store.replication.entries import (
    Payload,
    decode_entry,
    decode_head,
    decode_offset,
    encode_entry,
    encode_offset,
)
from qss_store.replication.follower import SentEntry, Take
from qss_store.runtime.clock import Clock
from qss_store.storage.commit_rows.commit_writer import APPLIED
from qss_store.storage.engine import CHANGELOG, META, PAYLOAD, Batch, Engine
from qss_store.transactions.commands import (
    Command,
    LoggedCommand,
    command_of,
    entry_of,
    payload_bytes_of,
    payload_checksum_of,
)

_CUT_AFTER_BYTES = 16 * 1024 * 1024
_CUT_AT_ONCE_MAX = 500
_CUT = b"changelog-cut"
_ASKED = b"learners-asked-for"


class _Cut(Wire, frozen=True, kw_only=True):
    """The last entry that was cut: a log without entries continues after it."""

    offset: Offset
    epoch: Epoch
    bytes_after: int  # All bytes that were appended up to the end of that entry.
    digest: bytes = NO_DIGEST  # Of all entries up to that one.

    @property
    def point(self) -> LogPoint:
        """The place behind the entry."""
        return LogPoint(Offset(self.offset + 1), self.epoch, Digest(self.digest))


class _Asked(Wire, frozen=True, kw_only=True):
    """The learners that the active of an epoch asked for."""

    epoch: Epoch
    learners: tuple[Ordinal, ...]


class Changelog:
    """The log's state, `log`, and its entries on disk."""

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
        newest = engine.snapshot(CHANGELOG)
        last = next(newest.scan(reverse=True), None)
        newest.close()
        behind_cut = applied if cut is None else Offset(max(applied, cut.offset + 1))
        self.log = logs.Log(
            pod=pod,
            configuration=configuration,
            start=decode_offset(first[0]) if first else behind_cut,
            end=Offset(decode_offset(last[0]) + 1) if last else behind_cut,
            watermark=applied,
            applied=applied,
            counted=_asked_for(meta, configuration.epoch),
        )
        if not self.log.start <= applied <= self.log.end:
            raise CorruptionError(
                f"the changelog holds the entries {self.log.start} to {self.log.end - 1} and "
                f"{applied} is the next one to apply: entries are missing"
            )
        self._before_start = cut.point if cut else BEGINNING
        self._bytes_total = cut.bytes_after if cut else 0
        self._end = replace(self._before_start, offset=self.log.end)
        if last is not None:
            self._continue_behind(decode_offset(last[0]), last[1])
        self._bytes_when_cut = 0
        self.is_cut_owed = False
        self._due_below = self.log.start  # Entries below are deleted, some at a time.
        # Entries below are skipped: they have times in the future, from a clock that was ahead.
        self._examined = self.log.start

    @property
    def owes_barrier(self) -> bool:
        """Whether the next entry has to be a Barrier."""
        return logs.owes_barrier(self.log, self._end.epoch)

    def append(self, command: Command, payload: bytes | memoryview) -> tuple[Offset, LoggedCommand]:
        """Writes an entry, not durably. Raises DiskFullError; then no entry was written."""
        logged = LoggedCommand(self.log.configuration.epoch, self._clock.wall_ms(), command)
        log, offset = logs.append(self.log)
        held = None
        if len(log.configuration.replicas) > 1:  # Only other replicas compare digests.
            held = Payload(len(payload), payload_checksum_of(command, payload))
        data = encode_entry(entry_of(logged, self._bytes_total, self._end.digest, held))
        batch = self.engine.batch()
        _put(batch, offset, data, payload)
        self.engine.write(batch)
        self.log = log
        self._bytes_total += len(data) + len(payload)
        self._end = LogPoint(Offset(offset + 1), logged.epoch, digest_after(data))
        return offset, logged

    async def ask_for(self, learner: Ordinal) -> None:
        """From now on the learner counts in this epoch, after a restart, too.

        Ask the operator only afterwards: a sole replica that forgot the learner would acknowledge
        entries that the learner lacks, and the operator would still take it into the in-sync set.
        """
        log = active.ask_for(self.log, learner)
        asked = _Asked(epoch=log.configuration.epoch, learners=tuple(sorted(log.counted)))
        batch = self.engine.batch()
        batch.put(META, _ASKED, encode(asked))
        self.engine.write(batch)
        self.log = log
        await self.sync()

    def take(self, taken: Take) -> None:
        """Writes entries of the active as they are, in place of own ones; not durably.

        Raises DiskFullError; then nothing was written. Raises CorruptionError where an entry under
        the watermark would be cut.
        """
        log, first = self.log, taken.first
        batch = self.engine.batch()
        if taken.cut_from is not None:
            log = logs.cut_tail(log, taken.cut_from)
            for offset in range(taken.cut_from, self.log.end):
                batch.delete(CHANGELOG, encode_offset(offset))
                batch.delete(PAYLOAD, encode_offset(offset))
        for offset, entry in enumerate(taken.entries, start=first):
            _put(batch, offset, entry.data, entry.payload)
            log, _ = logs.append(log)
        if taken.cut_from is not None or taken.entries:
            self.engine.write(batch)
        if taken.cut_from is not None and not taken.entries:
            point = self.point_at(taken.cut_from)
            assert point is not None, "the log reaches there"
            self._end = point
        self.log = logs.learn_watermark(log, taken.watermark)
        if taken.entries:
            self._continue_behind(Offset(self.log.end - 1), taken.entries[-1].data)

    def point_at(self, offset: Offset) -> LogPoint | None:
        """The place before an entry; None where the log does not reach there."""
        if offset == self.log.end:
            return self._end
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
            payload = self.engine.get(PAYLOAD, encode_offset(number)) or b""
            size += len(data) + len(payload)
            if found and size > bytes_max:
                break
            found.append(SentEntry(data, payload))
        return tuple(found)

    def _continue_behind(self, offset: Offset, data: bytes) -> None:
        """Notes the log's end: the entry with these bytes is the last one."""
        entry = decode_entry(data)
        payload = entry.payload
        size = payload_bytes_of(command_of(entry).command) if payload is None else payload.size
        self._bytes_total = entry.bytes_before + len(data) + size
        self._end = LogPoint(Offset(offset + 1), entry.epoch, digest_after(data))

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
        return None if data is None else zlib.crc32(data)

    @property
    def durable_end(self) -> Offset:
        """This pod has synced all entries below."""
        return self.log.durable.get(self.log.pod, Offset(0))

    async def sync(self) -> None:
        """Makes all earlier writes durable, entries among them."""
        end = self.log.end
        await self._syncs.sync(self.engine)
        self.log = logs.acknowledge(self.log, self.log.pod, end)

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
        return self.is_cut_owed or self._bytes_total - self._bytes_when_cut > _CUT_AFTER_BYTES

    def cut(self, settings: StoreSettings, open_floor: Offset | None) -> bool:
        """Deletes some entries beyond the retention; returns whether more may be left.

        Entries from `open_floor` on stay. While an entry is being applied, the cut is put off.
        """
        self._bytes_when_cut = self._bytes_total
        if self.log.applied < self.log.watermark:
            self.is_cut_owed = True
            return False
        self.is_cut_owed = False
        if self._due_below <= self.log.start:
            self.is_cut_owed = self._look(settings, open_floor)
        if self._due_below > self.log.start:
            self._delete_below(Offset(min(self._due_below, self.log.start + _CUT_AT_ONCE_MAX)))
            self.is_cut_owed |= self._due_below > self.log.start
        return self.is_cut_owed

    def _look(self, settings: StoreSettings, open_floor: Offset | None) -> bool:
        """Finds the offset below which entries are deleted; returns whether to look further."""
        start = max(self._examined, self.log.start)
        rows = self.engine.scan(CHANGELOG, lower=encode_offset(start))
        looked_at = [_stored(key, data) for key, data in islice(rows, _CUT_AT_ONCE_MAX)]
        now_ms = self._clock.wall_ms()
        self._due_below = logs.truncation_point(
            self.log,
            looked_at,
            self._bytes_total,
            open_floor,
            now_ms,
            logs.Retention(settings.changelog_retention_ms, settings.changelog_retention_bytes),
        )
        is_full = len(looked_at) == _CUT_AT_ONCE_MAX
        if self._due_below > self.log.start:
            self._examined = self._due_below
            return is_full
        is_undecided = is_full and looked_at[-1].wall_time_ms > now_ms
        self._examined = Offset(looked_at[-1].offset + 1) if is_undecided else self.log.start
        return is_undecided

    def _delete_below(self, point: Offset) -> None:
        last = self._data(Offset(point - 1))
        behind = self.engine.get(CHANGELOG, encode_offset(point))
        cut = _Cut(
            offset=Offset(point - 1),
            epoch=Epoch(decode_head(last).epoch),
            bytes_after=decode_head(behind).bytes_before if behind else self._bytes_total,
            digest=digest_after(last),
        )
        batch = self.engine.batch()
        for offset in range(self.log.start, point):
            batch.delete(CHANGELOG, encode_offset(offset))
            batch.delete(PAYLOAD, encode_offset(offset))
        batch.put(META, _CUT, encode(cut))
        self.engine.write(batch, makes_room=True)
        self.log = replace(self.log, start=point)
        self._before_start = cut.point


def _asked_for(meta: Mapping[bytes, bytes], epoch: Epoch) -> frozenset[Ordinal]:
    """The learners that this replica asked for in this epoch, before it started."""
    asked = decode(meta[_ASKED], _Asked) if _ASKED in meta else None
    return frozenset(asked.learners if asked is not None and asked.epoch == epoch else ())


def _put(batch: Batch, offset: int, data: bytes, payload: bytes | memoryview) -> None:
    batch.put(CHANGELOG, encode_offset(offset), data)
    if payload:
        batch.put(PAYLOAD, encode_offset(offset), bytes(payload))


def _stored(key: bytes, data: bytes) -> logs.Stored:
    head = decode_head(data)
    return logs.Stored(decode_offset(key), head.wall_time_ms, head.bytes_before)
