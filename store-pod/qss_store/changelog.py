"""One replica's changelog in its engine: the shell around the pure rules of `replication.log`."""

from collections.abc import Mapping
from itertools import islice

from msgspec.structs import replace

from qss_core.errors import CorruptionError
from qss_core.model import Offset, Ordinal, PartitionConfiguration, StoreSettings
from qss_store.clock import Clock
from qss_store.committing import APPLIED
from qss_store.engine.base import CHANGELOG, PAYLOAD, Engine
from qss_store.replication import log as logs
from qss_store.replication.entries import (
    Command,
    Entry,
    decode_entry,
    decode_offset,
    encode_entry,
    encode_offset,
)

_CUT_AFTER_BYTES = 16 * 1024 * 1024
_CUT_AT_ONCE_MAX = 1000


class Changelog:
    """The log's state, `log`, and its entries on disk."""

    def __init__(
        self,
        engine: Engine,
        pod: Ordinal,
        configuration: PartitionConfiguration,
        meta: Mapping[bytes, bytes],
        clock: Clock,
    ) -> None:
        """Finds what the engine holds; only what was applied is taken to be under the watermark."""
        self._engine = engine
        self._clock = clock
        applied = decode_offset(meta.get(APPLIED, encode_offset(0)))
        first = next(engine.scan(CHANGELOG), None)
        newest = engine.snapshot(CHANGELOG)
        last = next(newest.scan(reverse=True), None)
        newest.close()
        self.log = logs.Log(
            pod=pod,
            configuration=configuration,
            start=decode_offset(first[0]) if first else applied,
            end=Offset(decode_offset(last[0]) + 1) if last else applied,
            watermark=applied,
            applied=applied,
        )
        self._bytes_total = 0 if last is None else _bytes_after(last[1])
        self._bytes_when_cut = 0

    def append(self, command: Command, payload: bytes | memoryview) -> tuple[Offset, Entry]:
        """Writes an entry, not durably; DiskFullError, and no entry, where there is no space."""
        entry = Entry(
            self.log.configuration.epoch, self._clock.wall_ms(), self._bytes_total, command
        )
        log, offset = logs.append(self.log)
        data = encode_entry(entry)
        batch = self._engine.batch()
        batch.put(CHANGELOG, encode_offset(offset), data)
        if entry.payload_bytes:
            batch.put(PAYLOAD, encode_offset(offset), bytes(payload))
        self._engine.write(batch)
        self.log = log
        self._bytes_total += len(data) + entry.payload_bytes
        return offset, entry

    def read(self, offset: Offset) -> Entry:
        """An entry; CorruptionError where it is missing."""
        data = self._engine.get(CHANGELOG, encode_offset(offset))
        if data is None:
            raise CorruptionError(f"entry {offset} is missing from the changelog")
        return decode_entry(data)

    def acknowledge(self, end: Offset) -> None:
        """Notes that everything below `end` is durable here."""
        self.log = logs.acknowledge(self.log, self.log.pod, end)

    def applied(self, offset: Offset) -> None:
        """Notes that an entry was applied."""
        self.log = logs.apply(self.log, offset)

    @property
    def is_due_to_cut(self) -> bool:
        """Whether so much was appended since the last cut that another one may be worth it."""
        return self._bytes_total - self._bytes_when_cut > _CUT_AFTER_BYTES

    def cut(self, settings: StoreSettings, open_floor: Offset | None) -> None:
        """Deletes what the retention no longer asks for; `open_floor` and above stay."""
        self._bytes_when_cut = self._bytes_total
        entries = self._engine.scan(CHANGELOG, lower=encode_offset(self.log.start))
        point = logs.truncation_point(
            self.log,
            islice((_stored(key, data) for key, data in entries), _CUT_AT_ONCE_MAX),
            self._bytes_total,
            open_floor,
            self._clock.wall_ms(),
            logs.Retention(settings.changelog_retention_ms, settings.changelog_retention_bytes),
        )
        # A pass that saw only the first entries cuts no further than it saw.
        point = Offset(min(point, self.log.start + _CUT_AT_ONCE_MAX))
        if point <= self.log.start:
            return
        batch = self._engine.batch()
        for offset in range(self.log.start, point):
            batch.delete(CHANGELOG, encode_offset(offset))
            batch.delete(PAYLOAD, encode_offset(offset))
        self._engine.write(batch)
        self.log = replace(self.log, start=point)


def _bytes_after(data: bytes) -> int:
    """All bytes ever appended, up to and with this entry."""
    entry = decode_entry(data)
    return entry.bytes_before + len(data) + entry.payload_bytes


def _stored(key: bytes, data: bytes) -> logs.Stored:
    entry = decode_entry(data)
    return logs.Stored(decode_offset(key), entry.wall_time_ms, entry.bytes_before)
