"""Keeps one replica's changelog in its engine; `replication.log` has the pure rules."""

import zlib
from collections.abc import Mapping
from itertools import islice

from msgspec.structs import replace

from qss_core.errors import CorruptionError
from qss_core.model import Epoch, Offset, Ordinal, PartitionConfiguration, StoreSettings, Wire
from qss_core.wire.messages import decode, encode
from qss_store.replicas.group_sync import GroupSync
from qss_store.replication import log as logs
from qss_store.replication.entries import (
    decode_entry,
    decode_head,
    decode_offset,
    encode_entry,
    encode_offset,
)
from qss_store.runtime.clock import Clock
from qss_store.storage.commit_rows.commit_writer import APPLIED
from qss_store.storage.engine import CHANGELOG, META, PAYLOAD, Engine
from qss_store.transactions.commands import (
    Command,
    LoggedCommand,
    command_of,
    entry_of,
    payload_bytes_of,
)

_CUT_AFTER_BYTES = 16 * 1024 * 1024
_CUT_AT_ONCE_MAX = 500
_CUT = b"changelog-cut"


class _Cut(Wire, frozen=True, kw_only=True):
    """The last entry that was cut: a log without entries continues after it."""

    offset: Offset
    epoch: Epoch
    bytes_after: int  # All bytes that were appended up to the end of that entry.


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
        self._engine = engine
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
        )
        if not self.log.start <= applied <= self.log.end:
            raise CorruptionError(
                f"the changelog holds the entries {self.log.start} to {self.log.end - 1} and "
                f"{applied} is the next one to apply: entries are missing"
            )
        self._bytes_total = cut.bytes_after if cut else 0
        self._last_epoch = cut.epoch if cut else Epoch(0)
        if last is not None:
            entry = decode_entry(last[1])
            payload_bytes = payload_bytes_of(command_of(entry).command)
            self._bytes_total = entry.bytes_before + len(last[1]) + payload_bytes
            self._last_epoch = entry.epoch
        self._bytes_when_cut = 0
        self.is_cut_owed = False
        self._due_below = self.log.start  # Entries below are deleted, some at a time.
        # Entries below are skipped: they have times in the future, from a clock that was ahead.
        self._examined = self.log.start

    @property
    def owes_barrier(self) -> bool:
        """Whether the next entry has to be a Barrier."""
        return logs.owes_barrier(self.log, self._last_epoch)

    def append(self, command: Command, payload: bytes | memoryview) -> tuple[Offset, LoggedCommand]:
        """Writes an entry, not durably. Raises DiskFullError; then no entry was written."""
        logged = LoggedCommand(self.log.configuration.epoch, self._clock.wall_ms(), command)
        payload_bytes = payload_bytes_of(command)
        log, offset = logs.append(self.log)
        data = encode_entry(entry_of(logged, self._bytes_total))
        batch = self._engine.batch()
        batch.put(CHANGELOG, encode_offset(offset), data)
        if payload_bytes:
            batch.put(PAYLOAD, encode_offset(offset), bytes(payload))
        self._engine.write(batch)
        self.log = log
        self._last_epoch = logged.epoch
        self._bytes_total += len(data) + payload_bytes
        return offset, logged

    def read(self, offset: Offset) -> LoggedCommand:
        """The command of an entry. Raises CorruptionError where the entry is missing."""
        data = self._engine.get(CHANGELOG, encode_offset(offset))
        if data is None:
            raise CorruptionError(f"entry {offset} is missing from the changelog")
        return command_of(decode_entry(data))

    def digest(self, offset: Offset) -> int | None:
        """A checksum of an entry's bytes without its payload; None where the entry is missing."""
        data = self._engine.get(CHANGELOG, encode_offset(offset))
        return None if data is None else zlib.crc32(data)

    @property
    def durable_end(self) -> Offset:
        """This pod has synced all entries below."""
        return self.log.durable.get(self.log.pod, Offset(0))

    async def sync(self) -> None:
        """Makes all earlier writes durable, entries among them."""
        end = self.log.end
        await self._syncs.sync(self._engine)
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
        rows = self._engine.scan(CHANGELOG, lower=encode_offset(start))
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
        last = self._engine.get(CHANGELOG, encode_offset(Offset(point - 1)))
        if last is None:
            raise CorruptionError(f"entry {point - 1} is missing from the changelog")
        behind = self._engine.get(CHANGELOG, encode_offset(point))
        cut = _Cut(
            offset=Offset(point - 1),
            epoch=Epoch(decode_head(last).epoch),
            bytes_after=decode_head(behind).bytes_before if behind else self._bytes_total,
        )
        batch = self._engine.batch()
        for offset in range(self.log.start, point):
            batch.delete(CHANGELOG, encode_offset(offset))
            batch.delete(PAYLOAD, encode_offset(offset))
        batch.put(META, _CUT, encode(cut))
        self._engine.write(batch, makes_room=True)
        self.log = replace(self.log, start=point)


def _stored(key: bytes, data: bytes) -> logs.Stored:
    head = decode_head(data)
    return logs.Stored(decode_offset(key), head.wall_time_ms, head.bytes_before)
