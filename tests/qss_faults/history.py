"""The content of every batch, and the judgement of what readers saw of them.

Batch n has one row in each partition, with one of the partition's shared keys, which n chooses,
and one row with a key of its own. All values are n. So the batch in an answer's position decides
the whole answer, and its sequence has to be the number of batches up to there.
"""

import threading
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property

from qss_core.partitioning import partition_of
from qss_core.positions import BATCH_TOPICS, Position
from qss_testing.writers.process_writer import key_in

WRITER = "faults"
SHARED_KEYS = 8  # Shared keys in each partition.
TRACES_MAX = 40
KINDS = ("lost", "doubled", "false", "regressed")


@dataclass(frozen=True)
class Batches:
    """The rows of each batch, in a store of some partitions."""

    partitions: int

    @cached_property
    def shared(self) -> tuple[tuple[str, ...], ...]:
        """The shared keys by partition."""
        return tuple(
            tuple(key_in(p, self.partitions, f"shared-{number}") for number in range(SHARED_KEYS))
            for p in range(self.partitions)
        )

    def rows_of(self, batch: int) -> dict[str, int]:
        """The rows of a batch."""
        shared = (keys[batch % SHARED_KEYS] for keys in self.shared)
        return dict.fromkeys([*shared, own_key(batch)], batch)

    def partition_of(self, key: str) -> int:
        return int(partition_of(key.encode(), self.partitions))

    def owned(self, partition: int, first: int, last: int) -> dict[str, int]:
        """The rows of a partition with a batch's own key, of the batches `first` to `last`."""
        keys = {own_key(batch): batch for batch in range(max(0, first), last + 1)}
        return {key: n for key, n in keys.items() if self.partition_of(key) == partition}

    def rows_at(self, partition: int, last: int) -> dict[str, int]:
        """All rows of a partition after batch `last`."""
        rows = self.owned(partition, 0, last)
        for number, key in enumerate(self.shared[partition]):
            if (value := value_at(number, last)) >= 0:
                rows[key] = value
        return rows


def own_key(batch: int) -> str:
    """The key that only one batch writes."""
    return f"batch-{batch:08}"


def value_at(number: int, last: int) -> int:
    """The value of a shared key after batch `last`; negative if no batch wrote the key yet."""
    return last - (last - number) % SHARED_KEYS


@dataclass(slots=True)
class History:
    """The batches that the writer began and that were acknowledged, and what was found wrong."""

    batches: Batches
    generation: int = 1
    begun: int = -1
    acknowledged: int = -1
    waits: list[tuple[float, str]] = field(default_factory=list)  # With the fault of that time.
    now: str = "start"  # The fault that strikes.
    broken: Counter[str] = field(default_factory=Counter)
    traces: list[str] = field(default_factory=list)
    _began_s: float = field(default_factory=time.monotonic)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def position_of(self, batch: int) -> Position:
        """The position of a batch, as a bound of reads."""
        return Position.of({f"{BATCH_TOPICS}{WRITER}": {self.generation: batch}})

    def batch_of(self, position: Position) -> int:
        """The last batch of a position; -1 if it has none."""
        found = position.offset_of(f"{BATCH_TOPICS}{WRITER}", self.generation)
        return -1 if found is None else found

    def record(self, kind: str, trace: str) -> None:
        """Counts something wrong, and keeps the first traces."""
        with self._lock:
            self.broken[kind] += 1
            if len(self.traces) < TRACES_MAX:
                seconds = time.monotonic() - self._began_s
                self.traces.append(f"{seconds:.3f} s, {self.now}: {kind}: {trace}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One answer of one partition: its rows are all of `asked` that the reader was shown."""

    by: str  # The reader and the replica, for a trace.
    partition: int
    batch: int  # The batch of the answer's position.
    sequence: int
    least: int  # The batch of the bound: the reader's own token, or the last acknowledged one.
    seen: int  # The newest batch that this reader saw in this partition before.


def judge(history: History, answer: Answer, asked: dict[str, int], rows: dict[str, int]) -> None:
    """Records what an answer has wrong; `asked` has the rows as of the answer's position."""
    told = f"partition {answer.partition} by {answer.by} at batch {answer.batch}"
    if answer.batch < max(answer.seen, answer.least):
        kind = "regressed" if answer.batch < answer.seen else "lost"
        history.record(kind, f"{told}; seen {answer.seen}, bound {answer.least}")
    if answer.batch > history.begun:
        history.record("false", f"{told}; batch {history.begun} is the last that was begun")
    if answer.sequence != answer.batch + 1:
        kind = "doubled" if answer.sequence > answer.batch + 1 else "lost"
        history.record(kind, f"{told} has sequence {answer.sequence}")
    compare(history, told, asked, rows)


def compare(history: History, told: str, expected: dict[str, int], rows: dict[str, int]) -> None:
    """Records rows that are missing, older or newer than they should be, or never written."""
    if rows == expected:
        return
    for key in sorted(rows.keys() | expected.keys()):
        value, right = rows.get(key), expected.get(key)
        if value != right:
            is_lost = right is not None and (value is None or value < right)
            kind = "lost" if is_lost else "false"
            history.record(kind, f"{told}: {key} is {value}, not {right}")


def once(history: History, told: str, rows: Iterable[tuple[str, int]]) -> dict[str, int]:
    """The rows by key; records keys that come twice."""
    found: dict[str, int] = {}
    for key, value in rows:
        if key in found:
            history.record("doubled", f"{told}: {key} comes twice")
        found[key] = value
    return found
