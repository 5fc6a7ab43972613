"""The batches of writers, the answers to them, and the rows that readers saw, for the checks.

Each batch writes a row of its own and replaces the same filler rows, in most partitions. So a state
in which batches are mixed, or only a part of one is there, is seen in one read of a partition.
"""

import math
from dataclasses import dataclass, field

import pyarrow as pa

from qss_client.chunks.chunk import Slice, encode_slice

PARTITIONS = 4
_FILLERS = 25


@dataclass(frozen=True, slots=True, order=True)
class Batch:
    """One batch as one run wrote it."""

    generation: int
    number: int
    run: str

    def __str__(self) -> str:
        """As keys have it, with the run."""
        return f"{self.key}/{self.run}"

    @property
    def key(self) -> str:
        """The key of the batch's own row, the same for all runs."""
        return f"{self.generation}/{self.number}"

    @property
    def fingerprint(self) -> str:
        """The fingerprint of the batch's input: the same for all runs."""
        return self.key

    @property
    def partitions(self) -> list[int]:
        """The partitions that get rows."""
        return [one for one in range(PARTITIONS) if (self.number + one) % 4]

    def slices(self, task: int = 0, tasks: int = 1) -> list[Slice]:
        """The rows that one of `tasks` writes."""
        keys = [f"~{number:03}" for number in range(task, _FILLERS, tasks)]
        if task == 0:
            keys.insert(0, self.key)
        table = pa.table(
            {
                "key": pa.array([key.encode() for key in keys]),
                "value": pa.array([str(self).encode()] * len(keys)),
            }
        )
        return [encode_slice(partition, table) for partition in self.partitions]


class HistoryError(AssertionError):
    """An answer that must not be."""


@dataclass(slots=True)
class History:
    """The history of one store in one run of the simulation."""

    begun: set[str] = field(default_factory=set)
    acknowledged: dict[str, int] = field(default_factory=dict)  # The sequence, by key.
    told: list[tuple[float, int]] = field(default_factory=list)  # Times (s) and sequences.
    given_up: set[str] = field(default_factory=set)  # Runs were told that these are not decided.

    def begin(self, batch: Batch) -> None:
        """A run may have sent rows of this batch."""
        self.begun.add(str(batch))

    def acknowledge(self, batch: Batch, sequence: int, now_s: float, *, replayed: bool) -> None:
        """A run was told at `now_s` that the batch is committed."""
        self.told.append((now_s, sequence))
        before = self.acknowledged.setdefault(batch.key, sequence)
        if before != sequence:
            raise HistoryError(f"{batch} was acknowledged as sequence {before} and {sequence}")
        others = [key for key, one in self.acknowledged.items() if one == sequence]
        if len(others) > 1:
            raise HistoryError(f"sequence {sequence} was acknowledged for {others}")
        if replayed and not any(one.startswith(f"{batch.key}/") for one in self.begun):
            raise HistoryError(f"{batch} was applied before anybody sent it")

    def give_up(self, batch: Batch) -> None:
        """A run was told that its batch is not decided, and that it never will be."""
        self.given_up.add(str(batch))

    def check_rows(self, partition: int, rows: dict[str, str]) -> None:
        """The rows of one read of a partition: whole batches, that somebody wrote."""
        own = {key: value for key, value in rows.items() if not key.startswith("~")}
        for key, value in own.items():
            if not value.startswith(f"{key}/") or value not in self.begun:
                raise HistoryError(f"partition {partition} has {value} under {key}")
            if value in self.given_up:
                raise HistoryError(f"partition {partition} has {value}, which its run gave up")
        fillers = {value for key, value in rows.items() if key.startswith("~")}
        if len(fillers) > 1:
            raise HistoryError(f"partition {partition} mixes {sorted(fillers)}")
        if fillers - set(own.values()):
            raise HistoryError(f"partition {partition} has {fillers} without its own row")

    def check_times(self, times_ms: dict[str, int]) -> None:
        """The times of one partition's rows: no batch is dated before an earlier one."""
        latest = 0
        for key in sorted(times_ms.keys() & self.acknowledged, key=self.acknowledged.__getitem__):
            if times_ms[key] < latest:
                raise HistoryError(f"batch {key} is dated {times_ms[key]}, after {latest}")
            latest = times_ms[key]

    def check_end(self, rows: list[dict[str, str]]) -> None:
        """The rows of all partitions at the end: each batch everywhere or nowhere, of one run."""
        found: dict[str, set[str]] = {}
        for partition, shown in enumerate(rows):
            self.check_rows(partition, shown)
            for key, value in shown.items():
                if not key.startswith("~"):
                    found.setdefault(key, set()).add(value)
        for key, values in found.items():
            if len(values) > 1:
                raise HistoryError(f"batch {key} is mixed from {sorted(values)}")
            generation, number = map(int, key.split("/"))
            wanted = Batch(generation, number, "").partitions
            present = [partition for partition, shown in enumerate(rows) if key in shown]
            if present != wanted:
                raise HistoryError(f"batch {key} is in {present}, not in {wanted}")
        if missing := sorted(self.acknowledged.keys() - found.keys()):
            raise HistoryError(f"acknowledged batches are lost: {missing}")


class Histories:
    """The histories of all stores that were made under one name, one after the other."""

    def __init__(self) -> None:
        """No store is made yet."""
        self._stores: dict[str, History] = {}

    def make(self, store_id: str) -> None:
        """From now on this is the store of the name."""
        self._stores[store_id] = History()

    def of(self, store_id: str) -> History:
        """The history of a store that was made."""
        return self._stores[store_id]

    @property
    def present(self) -> History:
        """The history of the store that was made last."""
        return [*self._stores.values()][-1]

    def acknowledged(self, until_s: float = math.inf) -> dict[str, int]:
        """By store: the last sequence that a run was told of as committed, until this time."""
        return {
            store_id: max((one for at_s, one in history.told if at_s <= until_s), default=0)
            for store_id, history in self._stores.items()
        }

    def age(self, store_id: str) -> int:
        """The number of stores that were made before this one."""
        return [*self._stores].index(store_id)
