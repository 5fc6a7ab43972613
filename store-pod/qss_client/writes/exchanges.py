"""The writer's protocol as exchanges: open, stage, commit, abort, renew. Pure.

Every request may be repeated without harm: an open carries its id, a slice its chunk id and
checksum, a commit its fingerprint. So a lost answer is asked for again, with the same bytes, until
the shell gives up. The functions of `batch` run these exchanges.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from msgspec.structs import replace

from qss_client.chunks.carried_batch import BATCH_MEDIA, encode_batch
from qss_client.chunks.chunk import Slice
from qss_client.writes.routes import COORDINATOR, Routes
from qss_client.writes.steps import Exchange, PodRequest
from qss_core.errors import Retry, StoreError
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

# The size to which a chunk is filled. A pod writes each slice in one piece.
CHUNK_BYTES = 4 * 1024 * 1024
ANSWER_TIMEOUT_S = 75.0  # Longer than a coordinator waits for a batch to complete.
_TELL_AFTER_S = 10.0  # A large batch takes some seconds to be applied.

_JSON_MEDIA = "application/json"
_CHUNK_MEDIA = "application/vnd.apache.arrow.stream"

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Staged:
    """One slice that is in the log of its partition."""

    partition: int
    chunk: ChunkReference


@dataclass(slots=True)
class Run:
    """An opened writer, as tasks on other machines need it to stage its batches.

    `opened` gets newer routes as the writer's requests learn them.
    """

    store: str
    writer: str
    opened: WriterOpened

    def learn(self, metadata: StoreMetadata) -> None:
        """Takes newer routes, for the next requests and for tasks that begin later."""
        self.opened = replace(self.opened, metadata=metadata)


@dataclass(frozen=True, slots=True)
class _Sent:
    """The slices that one pod staged, and the slices that it refused."""

    staged: list[Staged]
    failed: list[tuple[Slice, StoreError]]


def open_writer(
    metadata: StoreMetadata,
    writer: str,
    *,
    query_id: str,
    run_id: str,
    open_id: str,
    take_over: bool = False,
    one_off: bool = False,
) -> Exchange[Run]:
    """Opens the writer for a run of its query; `open_id` is unique among all opens."""
    check_writer_name(writer)
    request = OpenWriterRequest(
        query_id=query_id, run_id=run_id, open_id=open_id, take_over=take_over, one_off=one_off
    )
    path = f"writers/{writer}"
    opened = yield from _coordinated(
        Routes(metadata), path, encode(request), _JSON_MEDIA, WriterOpened
    )
    return Run(metadata.definition.name, writer, opened)


def stage(run: Run, batch: int, task: str, slices: Iterable[Slice]) -> Exchange[list[Staged]]:
    """Stages a task attempt's slices on the actives, chunk after chunk."""
    routes = Routes(run.opened.metadata, run.learn)
    staged: list[Staged] = []
    for number, chunk in enumerate(_chunks_of(routes, slices, run.opened.chunk_bytes_max)):
        chunk_id = encode_chunk_id(run.opened.writer_epoch, task, number)
        staged += yield from _stage_chunk(routes, run, batch, chunk_id, chunk)
    return staged


def commit(
    run: Run,
    batch: int,
    staged: Sequence[Staged],
    *,
    position: PositionJson,
    fingerprint: str,
    replace: bool = False,
) -> Exchange[CommitAnswer]:
    """Commits staged slices, in this order."""
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
    return (yield from _commit(run, batch, encode(request), _JSON_MEDIA))


def write_batch(
    run: Run,
    batch: int,
    rows: Sequence[Slice],
    *,
    position: PositionJson,
    fingerprint: str,
    replace: bool = False,
) -> Exchange[CommitAnswer]:
    """Commits a small batch with its rows, at most one slice a partition."""
    request = CommitRequest(
        generation=run.opened.generation,
        chunks={},
        position=position,
        fingerprint=fingerprint,
        replace=replace,
    )
    return (yield from _commit(run, batch, encode_batch(request, rows), BATCH_MEDIA))


def abort(run: Run, batch: int) -> Exchange[AbortAnswer]:
    """Gives the batch up and closes the run."""
    routes = Routes(run.opened.metadata, run.learn)
    path = _batch_path(run, batch) + "/abort"
    body = encode(AbortRequest(generation=run.opened.generation))
    return (yield from _coordinated(routes, path, body, _JSON_MEDIA, AbortAnswer))


def renew(run: Run) -> Exchange[None]:
    """Keeps the run open at the coordinator."""
    routes = Routes(run.opened.metadata, run.learn)
    path = f"writers/{run.writer}/{run.opened.writer_epoch}/renew"
    yield from _coordinated(routes, path, encode({}), _JSON_MEDIA, RenewAnswer)


def _batch_path(run: Run, batch: int) -> str:
    return f"writers/{run.writer}/{run.opened.writer_epoch}/batches/{batch}"


def _commit(run: Run, batch: int, body: bytes, media: str) -> Exchange[CommitAnswer]:
    routes = Routes(run.opened.metadata, run.learn)
    path = _batch_path(run, batch) + "/commit"
    return (yield from _coordinated(routes, path, body, media, CommitAnswer))


def _coordinated(
    routes: Routes, path: str, body: bytes, media: str, kind: type[Answer]
) -> Exchange[Answer]:
    """The coordinator's answer; the request is repeated while it may succeed."""
    while True:
        coordinator = routes.coordinator()
        request = PodRequest(
            method="POST",
            url=routes.url(coordinator, path),
            body=body,
            headers={"Content-Type": media},
            timeout_s=ANSWER_TIMEOUT_S,
            tell_after_s=_TELL_AFTER_S,
        )
        try:
            answer = yield from routes.answer(coordinator, COORDINATOR, request)
            return decode(answer.body, kind)
        except StoreError as error:
            yield from routes.after(error)


def _chunks_of(routes: Routes, slices: Iterable[Slice], limit_bytes: int) -> list[list[Slice]]:
    """Slices together that go to one pod, filled up to a bound, at most one of each partition."""
    chunks: list[list[Slice]] = []
    filling: dict[int, list[Slice]] = {}
    target = min(CHUNK_BYTES, limit_bytes)
    for one in slices:
        pod = routes.active(one.partition).ordinal
        chunk = filling.setdefault(pod, [])
        size = sum(len(other.data) for other in chunk)
        repeated = any(other.partition == one.partition for other in chunk)
        if chunk and (repeated or size + len(one.data) > target):
            chunks.append(chunk)
            chunk = filling[pod] = []
        chunk.append(one)
    return chunks + [chunk for chunk in filling.values() if chunk]


def _stage_chunk(
    routes: Routes, run: Run, batch: int, chunk_id: str, chunk: list[Slice]
) -> Exchange[list[Staged]]:
    """Sends a chunk. Slices that were not taken go again, same id, to the actives of by then."""
    staged: list[Staged] = []
    waiting = chunk
    while waiting:
        failures: list[tuple[Slice, StoreError]] = []
        for instance, together in routes.by_active(waiting):
            sent = yield from _send(routes, instance, run, batch, chunk_id, together)
            staged += sent.staged
            failures += sent.failed
        if failures:
            yield from routes.after(_worst([error for _, error in failures]))
        waiting = [one for one, _ in failures]
    return staged


def _send(
    routes: Routes, instance: Instance, run: Run, batch: int, chunk_id: str, slices: list[Slice]
) -> Exchange[_Sent]:
    """Sends slices of a chunk to one pod, once."""
    url = routes.url(instance, f"{_batch_path(run, batch)}/chunks/{chunk_id}")
    request = PodRequest(
        method="PUT",
        url=f"{url}&generation={run.opened.generation}",
        body=b"".join(one.data for one in slices),
        headers={"Content-Type": _CHUNK_MEDIA},
        timeout_s=ANSWER_TIMEOUT_S,
        tell_after_s=_TELL_AFTER_S,
    )
    try:
        answer = yield from routes.answer(instance, slices[0].partition, request)
    except StoreError as error:
        return _Sent([], [(one, error) for one in slices])
    results = decode(answer.body, StageAnswer).partitions
    staged: list[Staged] = []
    failed: list[tuple[Slice, StoreError]] = []
    for one in slices:
        result = results[str(one.partition)]
        if result.failure:
            failed.append((one, error_of(result.failure)))
        else:
            assert result.checksum == one.checksum, "the pod logged other bytes than were sent"
            reference = ChunkReference(id=chunk_id, records=one.records, checksum=one.checksum)
            staged.append(Staged(one.partition, reference))
    return _Sent(staged, failed)


def _worst(errors: list[StoreError]) -> StoreError:
    """A failure that no repeat will mend, if there is one."""
    return min(errors, key=lambda error: error.retry is not Retry.NEVER)
