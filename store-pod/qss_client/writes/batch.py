"""The writer's half of a batch: open, stage, commit, abort, renew, with retries inside.

Every request may be repeated without harm: an open carries its id, a slice its chunk id and
checksum, a commit its fingerprint. So a lost answer is asked for again, until the deadline.
"""

import time
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar
from urllib.parse import urlencode

from qss_client.addresses import Urls, checked_urls
from qss_client.chunks.carried_batch import BATCH_MEDIA, encode_batch
from qss_client.chunks.chunk import Slice
from qss_client.http.first_contact import first_answer
from qss_client.http.retries import RetryLimits
from qss_client.http.sync_http import Retrier, SyncHttp
from qss_client.http.wait_warnings import WaitWarnings
from qss_client.reads.routing import active_of
from qss_core.errors import Retry, StoreError
from qss_core.model import PartitionId
from qss_core.positions import PositionJson
from qss_core.wire.chunk_ids import encode_chunk_id
from qss_core.wire.messages import (
    AbortAnswer,
    AbortRequest,
    ChunkReference,
    CommitAnswer,
    CommitRequest,
    Instance,
    OpenWriterRequest,
    RenewAnswer,
    StageAnswer,
    StoreMetadata,
    WriterOpened,
    decode,
    encode,
    error_of,
)
from qss_core.wire.writer_reports import check_writer_name

CHUNK_BYTES = 4 * 1024 * 1024  # What a chunk is filled to: a pod writes each slice in one piece.
WRITE_LIMITS = RetryLimits(deadline_s=120.0)
ANSWER_TIMEOUT_S = 75.0  # Longer than a coordinator waits for a batch to complete.
DISCOVERY_TIMEOUT_S = 5.0
_TELL_AFTER_S = 10.0  # A large batch takes some seconds to be applied.

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Staged:
    """One slice that is in the log of its partition."""

    partition: int
    chunk: ChunkReference


@dataclass(frozen=True, slots=True)
class Run:
    """An opened writer: what tasks on other machines need to stage its batches."""

    store: str
    writer: str
    opened: WriterOpened


def discover(http: SyncHttp, url: Urls, store: str, limits: RetryLimits) -> StoreMetadata:
    """The store's pods and partitions; `url` is the query or the internal port of any pod, or many.

    Raises MalformedRequestError for what is no URL, and UnreachableError after
    `limits.first_contact_s` where nobody answers.
    """
    return first_answer(
        lambda base, timeout_s, telling: http.get(
            f"{base}/state/instances/{store}", StoreMetadata, timeout_s, telling
        ),
        checked_urls(url),
        store,
        limits,
    )


def open_writer(
    http: SyncHttp,
    metadata: StoreMetadata,
    writer: str,
    *,
    query_id: str,
    run_id: str,
    take_over: bool = False,
    one_off: bool = False,
    limits: RetryLimits = WRITE_LIMITS,
) -> Run:
    """Opens the writer for a run of its query.

    Raises OtherCheckpointError, StaleWriterError, MalformedRequestError for a name that none has.
    """
    check_writer_name(writer)
    request = OpenWriterRequest(
        query_id=query_id,
        run_id=run_id,
        open_id=uuid.uuid4().hex,
        take_over=take_over,
        one_off=one_off,
    )
    store = metadata.definition.name
    calls = _Calls(http, metadata, limits)
    opened = calls.coordinator(f"writers/{writer}", request, WriterOpened)
    return Run(store, writer, opened)


def stage(
    http: SyncHttp,
    run: Run,
    batch: int,
    task: str,
    slices: Iterable[Slice],
    limits: RetryLimits = WRITE_LIMITS,
) -> list[Staged]:
    """Stages a task attempt's slices on the actives; `task` is unique among the run's attempts.

    Returns when every slice is in the log of every in-sync replica. Raises BatchClosedError for a
    batch that was applied: then ask the coordinator, by `commit`.
    """
    calls = _Calls(http, run.opened.metadata, limits)
    staged: list[Staged] = []
    for number, chunk in enumerate(_chunks_of(calls.metadata, slices, run.opened.chunk_bytes_max)):
        chunk_id = encode_chunk_id(run.opened.writer_epoch, task, number)
        staged += calls.stage(run, batch, chunk_id, chunk)
    return staged


def _chunks_of(
    metadata: StoreMetadata, slices: Iterable[Slice], limit_bytes: int
) -> list[list[Slice]]:
    """Slices together that go to one pod, filled up to a bound, at most one of each partition."""
    chunks: list[list[Slice]] = []
    filling: dict[int, list[Slice]] = {}
    target = min(CHUNK_BYTES, limit_bytes)
    for one in slices:
        pod = active_of(metadata, one.partition).ordinal
        chunk = filling.setdefault(pod, [])
        size = sum(len(other.data) for other in chunk)
        repeated = any(other.partition == one.partition for other in chunk)
        if chunk and (repeated or size + len(one.data) > target):
            chunks.append(chunk)
            chunk = filling[pod] = []
        chunk.append(one)
    return chunks + [chunk for chunk in filling.values() if chunk]


def commit(
    http: SyncHttp,
    run: Run,
    batch: int,
    staged: Sequence[Staged],
    *,
    position: PositionJson,
    fingerprint: str,
    replace: bool = False,
    limits: RetryLimits = WRITE_LIMITS,
) -> CommitAnswer:
    """Commits the winners' slices, in this order; answers when all partitions have applied them."""
    chunks: dict[str, list[ChunkReference]] = {}
    for one in staged:
        chunks.setdefault(str(one.partition), []).append(one.chunk)
    request = CommitRequest(
        generation=run.opened.generation,
        chunks={partition: tuple(listed) for partition, listed in chunks.items()},
        position=position,
        fingerprint=fingerprint,
        replace=replace,
    )
    calls = _Calls(http, run.opened.metadata, limits)
    return calls.coordinator(_batch_path(run, batch) + "/commit", request, CommitAnswer)


def write_batch(
    http: SyncHttp,
    run: Run,
    batch: int,
    rows: Sequence[Slice],
    *,
    position: PositionJson,
    fingerprint: str,
    replace: bool = False,
    limits: RetryLimits = WRITE_LIMITS,
) -> CommitAnswer:
    """Commits a small batch with its rows, at most one slice a partition, in one request.

    As `stage` and `commit` together, and no less exactly once: the decision carries the rows. They
    may have `CARRIED_BYTES_MAX` bytes together, less 64 KiB; TooLargeError for more.
    """
    request = CommitRequest(
        generation=run.opened.generation,
        chunks={},
        position=position,
        fingerprint=fingerprint,
        replace=replace,
    )
    calls = _Calls(http, run.opened.metadata, limits)
    return calls.batch(_batch_path(run, batch) + "/commit", encode_batch(request, rows))


def abort(http: SyncHttp, run: Run, batch: int, limits: RetryLimits = WRITE_LIMITS) -> AbortAnswer:
    """Gives the batch up and closes the run; nothing happens to a batch that was decided."""
    request = AbortRequest(generation=run.opened.generation)
    calls = _Calls(http, run.opened.metadata, limits)
    return calls.coordinator(_batch_path(run, batch) + "/abort", request, AbortAnswer)


def renew(http: SyncHttp, run: Run, limits: RetryLimits = WRITE_LIMITS) -> None:
    """Keeps the run open; the coordinator closes one that is silent for an hour."""
    calls = _Calls(http, run.opened.metadata, limits)
    calls.coordinator(f"writers/{run.writer}/{run.opened.writer_epoch}/renew", {}, RenewAnswer)


def _batch_path(run: Run, batch: int) -> str:
    return f"writers/{run.writer}/{run.opened.writer_epoch}/batches/{batch}"


class _Calls:
    """One operation's requests: they share routes and patience."""

    def __init__(self, http: SyncHttp, metadata: StoreMetadata, limits: RetryLimits) -> None:
        self.metadata = metadata
        # The store that the writer meant when it began, whatever bears its name by now.
        self._store_id = urlencode({"storeId": metadata.definition.store_id})
        self._http = http
        self._limits = limits
        self._patience = Retrier(limits)

    def coordinator(self, path: str, message: object, kind: type[Answer]) -> Answer:
        """Asks the active of partition 0."""
        return self._asked(path, encode(message), "application/json", kind)

    def batch(self, path: str, body: bytes) -> CommitAnswer:
        """Sends it a batch with its rows."""
        return self._asked(path, body, BATCH_MEDIA, CommitAnswer)

    def _asked(self, path: str, body: bytes, media: str, kind: type[Answer]) -> Answer:
        while True:
            base = active_of(self.metadata, PartitionId(0)).changelog
            url = f"{base}/changelog/stores/{self.metadata.definition.name}/{path}?{self._store_id}"
            headers = {"Content-Type": media}
            try:
                answer = self._http.request(
                    "POST",
                    url,
                    body=body,
                    headers=headers,
                    timeout_s=ANSWER_TIMEOUT_S,
                    telling=_telling(),
                )
                return decode(answer.body, kind)
            except StoreError as error:
                self._wait(error)

    def stage(self, run: Run, batch: int, chunk_id: str, chunk: list[Slice]) -> list[Staged]:
        """Sends a chunk; slices that were not taken go again, same id, to who is active now."""
        staged: list[Staged] = []
        waiting = chunk
        while waiting:
            failures: list[tuple[Slice, StoreError]] = []
            for instance, together in self._by_active(waiting):
                taken, failed = self._send(instance, run, batch, chunk_id, together)
                staged += taken
                failures += failed
            if failures:
                self._wait(_worst([error for _, error in failures]))
            waiting = [one for one, _ in failures]
        return staged

    def _by_active(self, slices: list[Slice]) -> list[tuple[Instance, list[Slice]]]:
        groups: dict[int, tuple[Instance, list[Slice]]] = {}
        for one in slices:
            instance = active_of(self.metadata, one.partition)
            groups.setdefault(instance.ordinal, (instance, []))[1].append(one)
        return list(groups.values())

    def _send(
        self, instance: Instance, run: Run, batch: int, chunk_id: str, slices: list[Slice]
    ) -> tuple[list[Staged], list[tuple[Slice, StoreError]]]:
        path = f"{_batch_path(run, batch)}/chunks/{chunk_id}?{self._store_id}"
        try:
            answer = self._http.request(
                "PUT",
                f"{instance.changelog}/changelog/stores/{run.store}/{path}"
                f"&generation={run.opened.generation}",
                body=b"".join(one.data for one in slices),
                headers={"Content-Type": "application/vnd.apache.arrow.stream"},
                timeout_s=ANSWER_TIMEOUT_S,
                telling=_telling(),
            )
        except StoreError as error:
            return [], [(one, error) for one in slices]
        results = decode(answer.body, StageAnswer).partitions
        staged, failed = [], []
        for one in slices:
            result = results[str(one.partition)]
            if result.failure:
                failed.append((one, error_of(result.failure)))
            else:
                assert result.checksum == one.checksum, "the pod logged other bytes than were sent"
                reference = ChunkReference(id=chunk_id, records=one.records, checksum=one.checksum)
                staged.append(Staged(one.partition, reference))
        return staged, failed

    def _wait(self, error: StoreError) -> None:
        if self._patience.after(error).refresh:
            found = self._discovered() or self.metadata
            if found.definition.store_id != self.metadata.definition.store_id:
                raise error  # The routes are right: the store was deleted and made again.
            self.metadata = found

    def _discovered(self) -> StoreMetadata | None:
        """What any pod says now; None while none answers."""
        for instance in self.metadata.instances:
            url = f"{instance.changelog}/state/instances/{self.metadata.definition.name}"
            try:
                return self._http.get(url, StoreMetadata, timeout_s=DISCOVERY_TIMEOUT_S)
            except StoreError:
                continue
        return None


def _telling() -> WaitWarnings:
    return WaitWarnings.begun(time.monotonic(), _TELL_AFTER_S)


def _worst(errors: list[StoreError]) -> StoreError:
    """A failure that no repeat will mend, if there is one."""
    return min(errors, key=lambda error: error.retry is not Retry.NEVER)
