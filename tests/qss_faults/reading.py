"""The readers: each hands its own token on, bounds reads by the last batch, or asks the active.

`ReplicaReader` asks one replica after the other for what the replica itself has, so standbys
answer as often as actives; a refusal is an answer, too. `ClientReader` reads with the client, as a
program does: a read that fails within its time is counted.
"""

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from qss_client import ReadOptions, Store
from qss_client.http.sync_http import SyncHttp
from qss_core.errors import StoreError
from qss_core.positions import Position, encode_token
from qss_faults.content import Content, KeyValues
from qss_faults.history import SHARED_KEYS, Answer, History, judge, once, value_at

READ_WITHIN_S = 2.0
_REPLICA_WITHIN_S = 1.0
_PAUSE_S = 0.01
_ROWS_MAX = 10_000


@dataclass(frozen=True, slots=True)
class Asked:
    """The options of one read. `least` is the oldest batch that its answer may show."""

    least: int
    bound: Position
    require_active: bool = False


@dataclass(slots=True)
class Reader:
    """The counts of a reader, and its judgement."""

    urls: list[str]
    store: str
    history: History
    content: Content
    name: str
    reads: int = 0
    failures: Counter[tuple[str, str]] = field(default_factory=Counter)  # By fault and code.
    longest_s: float = 0.0
    over: threading.Event = field(default_factory=threading.Event)
    _turn: int = 0
    _seen: dict[int, int] = field(default_factory=dict)  # The newest batch by partition.

    def repeat(self, read: Callable[[], None]) -> None:
        """Reads until `over` is set; each read is timed, and its failure counted."""
        while not self.over.is_set():
            began_s = time.monotonic()
            self.reads += 1
            self._turn += 1
            fault = self.history.now
            try:
                read()
            except StoreError as error:
                self.failures[fault, error.code] += 1
                self.over.wait(_PAUSE_S)
            self.longest_s = max(self.longest_s, time.monotonic() - began_s)

    def asked(self, token: Position) -> "Asked":
        """This read's options: two reads of three see all that was acknowledged before them."""
        acknowledged = self.history.acknowledged
        match self._turn % 3:
            case 0:
                return Asked(least=-1, bound=token)
            case 1:
                return Asked(acknowledged, token.merge(self.history.position_of(acknowledged)))
            case _:
                # A bound would hide an old active that still answers. A standby may show a batch
                # a moment before its active does.
                return Asked(acknowledged, Position.empty(), require_active=True)

    def judged(
        self, by: str, partition: int, answer: Mapping[str, Any], asked: Asked, rows: dict[str, int]
    ) -> None:
        """Judges rows by the answer's position; older ones may come where no token was sent."""
        batch, sequence = answer["batch"], answer["sequence"]
        expected = answer["expected"](batch)
        judge(
            self.history,
            Answer(
                by=f"{self.name} {by}",
                partition=partition,
                batch=batch,
                sequence=sequence,
                least=asked.least,
                seen=self._seen.get(partition, -1) if asked.bound.topics else -1,
            ),
            expected,
            rows,
        )
        self._seen[partition] = max(batch, self._seen.get(partition, -1))


@dataclass(slots=True)
class ReplicaReader(Reader):
    """Asks single replicas, standbys among them, for shared keys."""

    refusals: Counter[str] = field(default_factory=Counter)
    _token: Position = field(default_factory=Position.empty)

    def run(self) -> None:
        """Reads until `over` is set."""
        http = SyncHttp()
        try:
            self.repeat(lambda: self._read(http))
        finally:
            http.close()

    def _read(self, http: SyncHttp) -> None:
        batches = self.history.batches
        partition = self._turn % batches.partitions
        number = self._turn // batches.partitions % SHARED_KEYS
        url = self.urls[self._turn // 3 % len(self.urls)]
        key, asked = batches.shared[partition][number], self.asked(self._token)
        options = f"&positionBound={encode_token(asked.bound)}" if asked.bound.topics else ""
        options += "&requireActive=true" * asked.require_active
        last = self.history.acknowledged
        target = f"{url}{self.content.path(self.store, key, last)}{options}"
        try:
            point = self.content.point(http.request("GET", target, timeout_s=_REPLICA_WITHIN_S))
        except StoreError as error:
            self.refusals[error.code] += 1
            if error.code == "KEY_NOT_FOUND":
                self.history.record("lost", f"{self.name} {url}: no key {key}")
            if error.code == "UNREACHABLE":
                self.over.wait(_PAUSE_S)
            return
        self._token = self._token.merge(point.position)
        self.judged(
            point.by,
            partition,
            {
                "batch": self.history.batch_of(point.position),
                "sequence": point.sequence,
                "expected": lambda batch: self.content.expected(key, number, last, batch),
            },
            asked,
            once(self.history, f"{self.name} {point.by}", point.pairs),
        )


@dataclass(slots=True)
class ClientReader(Reader):
    """Reads with the client: shared keys, and scans of the newest batches' own keys."""

    newest: dict[str, int] = field(default_factory=dict)

    def run(self) -> None:
        """Reads until `over` is set."""
        with Store(self.urls, self.store) as store:
            self.repeat(lambda: self._get(store) if self._is_point() else self._scan(store))

    def _is_point(self) -> bool:
        return isinstance(self.content, KeyValues) and self._turn % 10 > 0

    def _get(self, store: Store) -> None:
        batches = self.history.batches
        partition = self._turn % batches.partitions
        number = self._turn // batches.partitions % SHARED_KEYS
        key, asked = batches.shared[partition][number], self.asked(store.position)
        row = store.get(key, _options(asked))
        value = -1 if row is None else int(row.value)
        told = f"{self.name}: {key} is {value}"
        if value < self.newest.get(key, -1):
            self.history.record("regressed", f"{told} after {self.newest[key]}")
        if value < value_at(number, asked.least):
            self.history.record("lost", f"{told}, bound by batch {asked.least}")
        if value > self.history.begun or value % SHARED_KEYS != number:
            self.history.record("false", f"{told}; begun {self.history.begun}")
        self.newest[key] = max(value, self.newest.get(key, -1))

    def _scan(self, store: Store) -> None:
        asked = self.asked(store.position)
        last = self.history.acknowledged
        query = self.content.query(last)
        result = store.query(
            query.pop("type"), options=_options(asked), limit=_ROWS_MAX, members=query
        )
        for partition, one in result.partition_results.items():
            found = one.get_result() or []
            assert one.position is not None
            assert one.sequence is not None
            by = f"{one.served_by} ({one.role}, epoch {one.epoch})"
            rows = once(self.history, f"{self.name} {by}", map(self.content.pair, found))
            self.judged(
                by,
                partition,
                {
                    "batch": self.history.batch_of(one.position),
                    "sequence": one.sequence,
                    "expected": self._queried(partition, last),
                },
                asked,
                rows,
            )

    def _queried(self, partition: int, last: int) -> Callable[[int], dict[str, int]]:
        return lambda batch: self.content.queried(partition, last, batch)


def _options(asked: Asked) -> ReadOptions:
    return ReadOptions(
        timeout_s=READ_WITHIN_S,
        position_bound=asked.bound,
        require_active=asked.require_active,
    )
