"""The plots of stories: their batches, and every state that follows, row by row."""

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import cached_property

import msgspec

from qss_client.chunks.chunk import Slice
from qss_core.formats.timed_keys import SEQUENCE_MAX, encode_session_key, encode_window_key
from qss_core.model import StoreDefinition, StoreType
from qss_store.runtime.plugins import NO_EXTENSIONS, Extensions
from qss_testing.faults.faulty_cluster import SETTINGS, make_assignment
from qss_testing.pods.stores import Put, slice_of
from qss_testing.reference.own_stores import BY_VALUE
from qss_testing.reference.versions import Versions

PARTITIONS = 3
MINUTE = 60_000
# The rows of one slice in a story's pod: a tenth of the usual number, so that plots are short.
SLICE_ROWS = 50
INDEXED_SLICE_ROWS = 20
SLICES = replace(SETTINGS, slice_rows_max=SLICE_ROWS, indexed_slice_rows_max=INDEXED_SLICE_ROWS)


@dataclass(frozen=True, slots=True)
class Batch:
    """Chunks of rows by partition, in commit order."""

    chunks: dict[int, list[list[Put]]]
    replace: bool = False


@dataclass(frozen=True, slots=True)
class State:
    """The rows that readers of a partition see; `kept` includes rows that retention hides."""

    rows: dict[bytes, bytes] = field(default_factory=dict)
    stream_time: int = -1
    kept: dict[bytes, tuple[int, bytes]] = field(default_factory=dict)
    puts: int = 0
    versions: Versions | None = None


@dataclass(frozen=True)
class Plot:
    definition: StoreDefinition
    batches: Sequence[Batch]
    extensions: Extensions = NO_EXTENSIONS
    carries_rows: bool = False  # Commits carry the rows of batches with one chunk.

    @property
    def generation(self) -> int:
        """The data generation at the end."""
        return sum(batch.replace for batch in self.batches)

    @cached_property
    def slices(self) -> list[dict[int, list[Slice]]]:
        """The staged slices, by batch and partition."""
        return [
            {
                partition: [slice_of(self.definition, partition, rows) for rows in chunks]
                for partition, chunks in batch.chunks.items()
            }
            for batch in self.batches
        ]

    @cached_property
    def states(self) -> list[list[State]]:
        """The states, by sequence and partition."""
        states = [[State() for _ in range(PARTITIONS)]]
        for batch in self.batches:
            after = [
                self._after(state, batch.chunks.get(partition, []), replaces=batch.replace)
                for partition, state in enumerate(states[-1])
            ]
            states.append(after)
        return states

    @cached_property
    def uncommitted(self) -> list[list[list[State]]]:
        """By sequence and partition: the states after the first chunks of the next batch."""
        return [
            [
                [
                    self._after(state, chunks[:count], replaces=False)
                    for chunks in [following.chunks.get(partition, [])]
                    for count in range(len(chunks) + 1)
                ]
                for partition, state in enumerate(states)
            ]
            for states, following in zip(self.states, [*self.batches, Batch({})], strict=True)
        ]

    def _after(self, state: State, chunks: list[list[Put]], *, replaces: bool) -> State:
        if self.definition.type is StoreType.VERSIONED:
            return self._after_versions(state, chunks, replaces=replaces)
        kept = {} if replaces else dict(state.kept)
        stream_time = -1 if replaces else state.stream_time
        puts = state.puts
        for row in (row for chunk in chunks for row in chunk):
            if self.definition.retain_duplicates and row.value is None:
                continue
            puts = (puts + (row.value is not None)) & SEQUENCE_MAX
            key, time = self._place(row, puts)
            stream_time = max(stream_time, time)
            kept.pop(key, None)
            if row.value is not None:
                kept[key] = (time, row.value)
        hidden = stream_time - (self.definition.retention_ms or 0)
        rows = {
            key: value
            for key, (time, value) in kept.items()
            if self.definition.retention_ms is None or time > hidden
        }
        return State(rows, stream_time, kept, puts)

    def _after_versions(self, state: State, chunks: list[list[Put]], *, replaces: bool) -> State:
        assert self.definition.history_retention_ms is not None
        versions = deepcopy(state.versions) or Versions(self.definition.history_retention_ms)
        versions.commit((row for chunk in chunks for row in chunk), replace=replaces)
        return State(versions.rows(), versions.stream_time, versions=versions)

    def _place(self, row: Put, puts: int) -> tuple[bytes, int]:
        """A row's key in the store, and its time."""
        match self.definition.type:
            case StoreType.WINDOW:
                sequence = puts if self.definition.retain_duplicates else 0
                return encode_window_key(row.key, row.start, sequence), row.start
            case StoreType.SESSION:
                return encode_session_key(row.key, row.start, row.end), row.end
            case _:
                return row.key, -1


def _numbered(start: int, end: int, value: str) -> list[Put]:
    return [Put(f"{number:05}".encode(), value.encode()) for number in range(start, end)]


_DELETE = Put(b"00000", None)

# The first batch takes three writes, the second two.
KEY_VALUE_PLOT = Plot(
    make_assignment(PARTITIONS, pods=1).definition,
    (
        Batch(
            {
                0: [_numbered(0, 2 * SLICE_ROWS + 1, "a"), _numbered(90, 110, "b")],
                1: [_numbered(0, 3, "a")],
            }
        ),
        Batch({0: [_numbered(0, SLICE_ROWS + 1, "c")], 2: [_numbered(0, 2, "c")]}, replace=True),
        Batch({p: [[_DELETE, *_numbered(1, 4, "d")]] for p in range(PARTITIONS)}),
    ),
)
# Small batches after a staged one; one has no row for a partition, and one replaces all rows.
CARRIED_PLOT = Plot(
    KEY_VALUE_PLOT.definition,
    (
        Batch({0: [_numbered(0, 3, "a"), _numbered(2, 5, "b")], 1: [_numbered(0, 2, "a")]}),
        Batch({p: [[_DELETE, *_numbered(1, 4, "c")]] for p in range(PARTITIONS)}),
        Batch({1: [_numbered(0, 2, "d")]}, replace=True),
        Batch({0: [_numbered(0, SLICE_ROWS + 1, "e")], 1: [[_DELETE]]}),
    ),
    carries_rows=True,
)

# The second batch moves rows within the index in three writes, and deletes some; the third replaces
# all rows.
INDEXED_PLOT = Plot(
    msgspec.structs.replace(
        KEY_VALUE_PLOT.definition,
        type=StoreType.CUSTOM,
        custom_name="ByValue",
        value_serde="string",
    ),
    (
        Batch({0: [_numbered(0, 26, "a"), _numbered(4, 8, "ab")], 1: [_numbered(0, 3, "a")]}),
        Batch(
            {
                0: [_numbered(0, 2 * INDEXED_SLICE_ROWS + 1, "b"), [*_numbered(1, 9, ""), _DELETE]],
                1: [[_DELETE]],
            }
        ),
        Batch(
            {0: [_numbered(0, INDEXED_SLICE_ROWS + 1, "c")], 2: [_numbered(0, 2, "c")]},
            replace=True,
        ),
        Batch({p: [[_DELETE, *_numbered(1, 4, "d")]] for p in range(PARTITIONS)}),
    ),
    extensions=BY_VALUE,
)


def _spread(rows: list[Put], first_minute: int, minutes: int) -> list[Put]:
    """The same rows, one after another by the minute, with a window and a session each."""
    starts = [(first_minute + number % minutes) * MINUTE for number in range(len(rows))]
    return [
        replace(row, start=start, end=start + 30_000)
        for row, start in zip(rows, starts, strict=True)
    ]


def _timed(**members: object) -> StoreDefinition:
    made = make_assignment(PARTITIONS, pods=1).definition
    return msgspec.structs.replace(made, retention_ms=10 * MINUTE, **members)


# Segments of five minutes. The second batch ends the first segment and begins three others; part of
# the third is late; the fourth sets stream time back to that of its own rows.
_TIMED_BATCHES = (
    Batch(
        {
            0: [_spread(_numbered(0, 2 * SLICE_ROWS + 1, "a"), 0, 9)],
            1: [_spread(_numbered(0, 3, "a"), 0, 3)],
        }
    ),
    Batch(
        {
            0: [_spread(_numbered(0, SLICE_ROWS + 1, "b"), 8, 13)],
            2: [_spread(_numbered(0, 2, "b"), 50, 2)],
        }
    ),
    Batch({p: [_spread([*_numbered(0, 40, "c"), _DELETE], 0, 20)] for p in range(PARTITIONS)}),
    Batch({0: [_spread(_numbered(0, 9, "d"), 3, 3)]}, replace=True),
    Batch({0: [_spread([_DELETE], 3, 1), _spread(_numbered(0, 2, "e"), 12, 2)]}),
)
DUPLICATES_PLOT = Plot(
    _timed(type=StoreType.WINDOW, window_size_ms=MINUTE, retain_duplicates=True), _TIMED_BATCHES
)
SESSION_PLOT = Plot(
    _timed(type=StoreType.SESSION, session_gap_ms=MINUTE, format="PlainWithHeaders"), _TIMED_BATCHES
)


def _dated(rows: list[Put], first_minute: int, minutes: int) -> list[Put]:
    """The same rows, one after another by the minute, with timestamps."""
    return [
        replace(row, timestamp=(first_minute + number % minutes) * MINUTE)
        for number, row in enumerate(rows)
    ]


def _deletes(start: int, end: int) -> list[Put]:
    return [replace(row, value=None) for row in _numbered(start, end, "")]


# Latest versions become history, late ones are inserted, tombstones end some. The third batch ends
# all earlier segments, and has puts for segments that are expired after it.
VERSIONED_PLOT = Plot(
    msgspec.structs.replace(
        make_assignment(PARTITIONS, pods=1).definition,
        type=StoreType.VERSIONED,
        history_retention_ms=10 * MINUTE,
        format="Plain",
    ),
    (
        Batch(
            {
                0: [
                    [*_dated(_numbered(0, 40, "a"), 0, 9), *_dated(_numbered(0, 15, "b"), 3, 7)],
                    _dated(_numbered(0, 4, "late"), 2, 1),
                ],
                1: [_dated(_numbered(0, 3, "a"), 0, 3)],
            }
        ),
        Batch(
            {
                0: [_dated(_deletes(0, 15), 6, 6), _dated(_numbered(0, SLICE_ROWS + 1, "c"), 4, 7)],
                2: [_dated(_numbered(0, 2, "c"), 50, 2)],
            }
        ),
        Batch(
            {
                p: [
                    [*_dated(_deletes(0, few), 8, 2), *_dated(_numbered(0, few, "d"), 40, 9)],
                    _dated(_numbered(0, few, "e"), 7, 20),
                ]
                for p, few in enumerate((20, 5, 5))
            }
        ),
        Batch({0: [_dated(_numbered(0, 9, "f"), 3, 3)]}, replace=True),
        Batch({0: [_dated(_deletes(0, 3), 3, 1), _dated(_numbered(0, 2, "g"), 12, 2)]}),
    ),
)
