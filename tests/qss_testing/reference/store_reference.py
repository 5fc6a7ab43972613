"""A simple reference of a whole store, with dicts and sorted lists.

It shares no code with the product except the encodings of row keys, which order the rows.
"""

import json
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol, TypeVar

from qss_core.formats.timed_keys import (
    SEQUENCE_MAX,
    STILL_VALID,
    encode_session_key,
    encode_version_key,
    encode_window_key,
)
from qss_core.model import StoreDefinition, StoreType
from qss_testing.pods.stores import Put
from qss_testing.reference.versions import Version, Versions

# Whether the rows of a format have timestamps and headers.
KEEPS = {
    "Plain": (False, False),
    "Timestamped": (True, False),
    "TimestampedWithHeaders": (True, True),
    "PlainWithHeaders": (False, True),
}


@dataclass(frozen=True)
class Rows:
    """Rows of one partition by row key, with the times that decide which are visible."""

    by_key: dict[bytes, Put] = field(default_factory=dict)
    stream_time: int = -1
    puts: int = 0

    def with_puts(self, puts: Iterable[Put], definition: StoreDefinition) -> "Rows":
        """The state after these puts, in order."""
        by_key, stream_time, count = {**self.by_key}, self.stream_time, self.puts
        for put in puts:
            if put.value is None and definition.retain_duplicates:
                continue  # The put is ignored, with its time.
            if definition.type is StoreType.SESSION:
                row_key = encode_session_key(put.key, put.start, put.end)
            elif definition.type is StoreType.WINDOW:
                sequence = 0
                if definition.retain_duplicates:
                    sequence = (count + 1) & SEQUENCE_MAX
                row_key = encode_window_key(put.key, put.start, sequence)
            else:
                row_key = put.key
            stream_time = max(stream_time, time_of(put, definition))
            if put.value is not None:
                by_key[row_key] = put
                count = (count + 1) & SEQUENCE_MAX
            else:
                by_key.pop(row_key, None)
        return Rows(by_key, stream_time, count)

    def visible(self, definition: StoreDefinition) -> dict[bytes, Put]:
        """The rows that retention does not hide, in order."""
        retention = definition.retention_ms
        return {
            key: put
            for key, put in sorted(self.by_key.items())
            if retention is None or time_of(put, definition) > self.stream_time - retention
        }

    def seen(self, definition: StoreDefinition) -> dict[bytes, tuple[bytes, int | None]]:
        """Value and timestamp of visible rows, in order."""
        visible = self.visible(definition)
        return {key: (put.value or b"", put.timestamp) for key, put in visible.items()}


def time_of(put: Put, definition: StoreDefinition) -> int:
    """The time of a window or a session; -1 for rows without times."""
    times = {StoreType.WINDOW: put.start, StoreType.SESSION: put.end}
    return times.get(definition.type, -1)


# --- Staged rows


class Attempt(Protocol):
    """The attempt that staged a chunk; `batch` is anything with an order."""

    @property
    def writer(self) -> str:
        """The name of the attempt's writer."""

    @property
    def epoch(self) -> int:
        """The epoch of its run."""

    @property
    def batch(self) -> Any:
        """The batch that the writer has open."""

    @property
    def task(self) -> str:
        """The task of the rows."""

    @property
    def attempt(self) -> int:
        """The number of the attempt."""


Held = TypeVar("Held", bound=Attempt)


def visible_chunks(staged: Sequence[Held], committed_epochs: Mapping[str, int]) -> list[Held]:
    """The chunks that READ_UNCOMMITTED shows, in order, by a literal form of the rule."""
    return [
        one
        for one in staged
        if not any(
            other.writer == one.writer
            and (
                other.epoch > one.epoch
                or (other.epoch == one.epoch and other.batch > one.batch)
                or (
                    (other.epoch, other.batch, other.task) == (one.epoch, one.batch, one.task)
                    and other.attempt > one.attempt
                )
            )
            for other in staged
        )
        and one.epoch >= committed_epochs.get(one.writer, 0)
    ]


@dataclass(frozen=True)
class Chunk:
    """Rows that one task attempt has staged in one partition."""

    writer: str
    epoch: int
    batch: tuple[int, int]  # Generation and number.
    task: str
    attempt: int
    name: str
    puts: list[Put]
    time_ms: int  # The time of its arrival.


# --- Shown rows


class Form(NamedTuple):
    """The members of a row besides its value; a timestamp of None is unknown."""

    timestamp: int | None
    headers: tuple[tuple[str, bytes | None], ...]

    def within(self, store_format: str) -> "Form":
        """The members that a format keeps."""
        has_timestamp, has_headers = KEEPS[store_format]
        return Form(self.timestamp if has_timestamp else None, self.headers if has_headers else ())

    def shown(self, store_format: str, time: int) -> dict[str, Any]:
        """The members in a row of an answer; `time` is that of the row key, or -1."""
        kept, (has_timestamp, has_headers) = self.within(store_format), KEEPS[store_format]
        members: dict[str, Any] = {}
        if has_timestamp:
            members["timestamp"] = time if kept.timestamp is None else kept.timestamp
        if has_headers:
            members["headers"] = [
                {"key": key, "value": None if value is None else b64encode(value).decode()}
                for key, value in kept.headers
            ]
        return members


@dataclass(frozen=True)
class Found:
    """A row as the answer should have it; `members` lacks timestamp and headers."""

    partition: int
    row_key: bytes
    put: Put
    members: dict[str, Any]
    time: int = -1  # The time of a window or a session.


@dataclass
class Partition:
    """One partition of the reference."""

    rows: Rows = field(default_factory=Rows)
    versions: Versions | None = None
    staged: list[Chunk] = field(default_factory=list)
    committed_epochs: dict[str, int] = field(default_factory=dict)


@dataclass
class Reference:
    """All partitions, and the forms that rows may have during a change of format."""

    definition: StoreDefinition
    format: str
    partitions: list[Partition]
    sequence: int = 0
    position: dict[str, dict[str, int]] = field(default_factory=dict)
    # The forms that each row may have: it may or may not be moved before the next change.
    forms: dict[Put, set[Form]] = field(default_factory=dict)

    @classmethod
    def of(cls, definition: StoreDefinition) -> "Reference":
        retention = definition.history_retention_ms
        partitions = [
            Partition(versions=None if retention is None else Versions(retention))
            for _ in range(definition.partitions)
        ]
        return cls(definition, definition.format, partitions)

    # --- What happens

    def commit(
        self,
        chunk: Chunk,
        puts: Mapping[int, list[Put]],
        position: Mapping[str, Any],
        *,
        replaces: bool,
    ) -> None:
        """Commits a batch with the run and the time of `chunk`; `puts` are its decided rows."""
        self.sequence += 1
        if replaces:  # It also removes the rows of other inputs.
            self.position = {
                topic: read for topic, read in self.position.items() if topic.startswith("@")
            }
        self.position = {**self.position, **position}
        topic, (generation, batch) = f"@batch.{chunk.writer}", chunk.batch
        self.position[topic] = {**self.position.get(topic, {}), str(generation): batch}
        for number, partition in enumerate(self.partitions):
            dated = dated_puts(puts.get(number, []), chunk.time_ms)
            if partition.versions is not None:
                partition.versions.commit(dated, replace=replaces)
            if replaces:
                partition.rows = Rows(puts=partition.rows.puts)
            partition.rows = partition.rows.with_puts(dated, self.definition)
            for put in dated:
                self.forms[put] = {Form(put.timestamp, put.headers).within(self.format)}
            partition.staged = [
                one
                for one in partition.staged
                if one.writer != chunk.writer or one.batch > chunk.batch
            ]
            partition.committed_epochs[chunk.writer] = chunk.epoch

    def abort(self, writer: str, epoch: int) -> None:
        """Aborts a run: drops the chunks of this and of earlier runs."""
        for partition in self.partitions:
            partition.staged = [
                one for one in partition.staged if one.writer != writer or one.epoch > epoch
            ]

    def change_format(self, target: str) -> None:
        """Changes the format; rows may or may not be moved before the next change."""
        if target != self.format:
            for forms in self.forms.values():
                forms |= {form.within(self.format) for form in forms}
        self.format = target

    def move_all(self, number: int) -> None:
        """Moves all rows of a partition to the store's format."""
        for put in self.partitions[number].rows.by_key.values():
            self.forms[put] = {form.within(self.format) for form in self.forms[put]}

    # --- Visible rows

    def view(self, number: int, *, uncommitted: bool = False) -> Rows:
        """The rows of a partition, with `uncommitted` also those of the visible chunks."""
        partition = self.partitions[number]
        rows = partition.rows
        if uncommitted:
            for chunk in visible_chunks(partition.staged, partition.committed_epochs):
                rows = rows.with_puts(dated_puts(chunk.puts, chunk.time_ms), self.definition)
        return rows

    def stream_time(self, number: int, *, uncommitted: bool = False) -> int:
        """The largest time of the rows that count."""
        if self.partitions[number].versions is not None:
            return self._versions(number, uncommitted=uncommitted).stream_time
        return self.view(number, uncommitted=uncommitted).stream_time

    def rows(self, *, uncommitted: bool = False) -> list[Found]:
        """All visible rows, partition by partition, by row key."""
        return [
            Found(
                number,
                row_key,
                put,
                self._members(row_key, put),
                time_of(put, self.definition),
            )
            for number in range(len(self.partitions))
            for row_key, put in self.view(number, uncommitted=uncommitted)
            .visible(self.definition)
            .items()
        ]

    def _versions(self, number: int, *, uncommitted: bool) -> Versions:
        partition = self.partitions[number]
        assert partition.versions is not None, "the store has versions"
        if not uncommitted:
            return partition.versions
        held = deepcopy(partition.versions)
        visible = visible_chunks(partition.staged, partition.committed_epochs)
        held.commit([put for one in visible for put in dated_puts(one.puts, one.time_ms)])
        return held

    def versions(
        self,
        number: int,
        key: bytes,
        first: int | None,
        last: int | None,
        *,
        uncommitted: bool = False,
    ) -> list[Found]:
        """The versions of a key that were valid in a range of time, oldest first."""
        held = self._versions(number, uncommitted=uncommitted)
        return [_found_version(number, key, one) for one in held.between(key, first, last)]

    def as_of(
        self, number: int, key: bytes, time: int | None, *, uncommitted: bool = False
    ) -> Found | None:
        """The version of a key that was valid at a time."""
        held = self._versions(number, uncommitted=uncommitted)
        one = held.as_of(key, time)
        return None if one is None else _found_version(number, key, one)

    def _members(self, row_key: bytes, put: Put) -> dict[str, Any]:
        members: dict[str, Any] = {"key": put.key.decode(), "value": json.loads(put.value or b"")}
        if self.definition.type is StoreType.WINDOW:
            members["windowStart"] = put.start
            members["windowEnd"] = put.start + (self.definition.window_size_ms or 0)
        if self.definition.type is StoreType.SESSION:
            members |= {"sessionStart": put.start, "sessionEnd": put.end}
        if self.definition.retain_duplicates:
            members["sequence"] = int.from_bytes(row_key[-4:], "big")
        return members

    def check_row(self, answer: Mapping[str, Any], found: Found, *, shape: str = "") -> None:
        """Compares a row of an answer with this row; a shown form stays the row's form.

        `shape` is the format with the answer's members, if it is not the store's.
        """
        beside = {name: answer[name] for name in ("timestamp", "headers") if name in answer}
        rest = {name: value for name, value in answer.items() if name not in beside}
        assert rest == found.members, (answer, found)
        put = found.put
        known = self.forms.get(put, {Form(put.timestamp, put.headers)})
        left = {
            form
            for form in known
            if form.within(self.format).shown(shape or self.format, found.time) == beside
        }
        assert left, (answer, found, known, self.format)
        if put in self.forms:
            self.forms[put] = left


def dated_puts(puts: Iterable[Put], time_ms: int) -> list[Put]:
    """The rows, with `time_ms` as the timestamp of rows without one."""
    return [put if put.timestamp is not None else replace(put, timestamp=time_ms) for put in puts]


def _found_version(number: int, key: bytes, one: Version) -> Found:
    valid_to = STILL_VALID if one.valid_to is None else one.valid_to
    members = {
        "key": key.decode(),
        "value": json.loads(one.value),
        "validFrom": one.valid_from,
        "validTo": one.valid_to,
    }
    row_key = encode_version_key(key, one.valid_from, valid_to)
    return Found(number, row_key, Put(key, one.value), members, one.valid_from)
