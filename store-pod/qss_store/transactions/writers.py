"""The coordinator's record of a writer: its runs, its batches, and when to forget it. Pure."""

import hashlib
from collections.abc import Iterable

import msgspec

from qss_core.errors import BatchMismatchError, OtherCheckpointError, StaleWriterError
from qss_core.model import Epoch, Sequence, Wire, WriterEpoch
from qss_core.wire.losses import LastBatch
from qss_core.wire.messages import ChunkReference, OpenWriterRequest, encode
from qss_store.transactions.commands import OpenWriter

UNKNOWN = ""
REMEMBERED_MAX = 1000  # Former runs, opens and queries of a writer.
ONE_OFF_RETENTION_MS = 7 * 24 * 3600 * 1000


class DecidedBatch(Wire, frozen=True, kw_only=True):
    """The part of a decision that recognises a replay of its batch."""

    fingerprint: str
    sequence: Sequence
    writer_epoch: WriterEpoch
    chunks_digest: str

    @property
    def is_all_that_is_known(self) -> bool:
        """Whether the decision is lost, and another partition reported that it was applied."""
        return self.fingerprint == UNKNOWN


class Writer(Wire, frozen=True, kw_only=True, omit_defaults=True):
    """A writer of the store. `writer_epoch` is that of its youngest run."""

    name: str
    query_id: str
    run_id: str
    open_id: str
    writer_epoch: WriterEpoch
    generation: int
    opened_at_ms: int
    closed: bool = False
    closed_at_ms: int | None = None  # The wall time of the CloseWriter entry.
    one_off: bool = False
    last_batch: int | None = None
    batches: dict[str, DecidedBatch] = msgspec.field(default_factory=dict)
    former_runs: tuple[str, ...] = ()
    former_opens: tuple[str, ...] = ()
    former_queries: tuple[str, ...] = ()
    # The epoch of partition 0 whose accepted loss ended the run; None after the next opening.
    ended_by_loss_in: Epoch | None = None


def fenced(held: Writer, reason: str) -> StaleWriterError:
    """The error of a run that is not the youngest open run of its writer.

    After an accepted loss the openings of runs may be lost, so no other reason is known.
    """
    if held.ended_by_loss_in is not None:
        reason = (
            f"the loss of batches of partition 0 was accepted in its epoch {held.ended_by_loss_in},"
            f" which ended this run of writer {held.name}: open the writer with another runId, and "
            "go on after the lastBatch of the answer"
        )
    return StaleWriterError(reason)


def check_youngest(held: Writer, writer_epoch: WriterEpoch, generation: int) -> None:
    """Raises StaleWriterError where a run is not the writer's youngest run, or is closed."""
    if (writer_epoch, generation) != (held.writer_epoch, held.generation):
        raise fenced(
            held,
            f"writer {held.name} was opened again (epoch {held.writer_epoch}, yours is "
            f"{writer_epoch}): stop this run, or open the writer anew",
        )
    if held.closed:
        raise fenced(held, f"epoch {writer_epoch} of writer {held.name} was closed: open it anew")


def is_same_query(held: Writer, query_id: str, *, takes_over: bool) -> bool:
    """Whether a query continues the batches of a writer.

    The query of a writer whose entries were lost is unknown: the next query that opens the writer
    counts as the same, unless it takes the writer over.
    """
    return held.query_id == query_id or (held.query_id == UNKNOWN and not takes_over)


def is_repeat(held: Writer, request: OpenWriterRequest) -> bool:
    """Whether a request has opened the writer already; False where it may open the writer.

    Raises OtherCheckpointError for another query without take-over, and StaleWriterError for a run
    or a query that a younger one has fenced.
    """
    if request.open_id == held.open_id:
        return True
    name = held.name
    if request.open_id in held.former_opens or request.run_id in held.former_runs:
        raise fenced(held, f"a younger run of writer {name} has opened: stop this one")
    if request.query_id in held.former_queries:
        raise StaleWriterError(f"another query has taken writer {name} over: stop this one")
    is_same = is_same_query(held, request.query_id, takes_over=False)
    if not (is_same or request.take_over):
        raise OtherCheckpointError(
            f"writer {name} belongs to query {held.query_id}, this is {request.query_id}: use "
            'its checkpoint, another writer name, or onNewCheckpoint="takeOver"',
            query_id=held.query_id,
        )
    return False


def opened_writer(
    held: Writer | None,
    entry: OpenWriter,
    writer_epoch: WriterEpoch,
    first_generation: int,
    wall_time_ms: int,
) -> Writer:
    """The record of a writer after it was opened in a new epoch; `held` is the record before."""
    fresh = Writer(
        name=entry.writer,
        query_id=entry.query_id,
        run_id=entry.run_id,
        open_id=entry.open_id,
        writer_epoch=writer_epoch,
        generation=first_generation,
        opened_at_ms=wall_time_ms,
        one_off=entry.one_off,
    )
    if held is None:
        return fresh
    other_run = () if held.run_id == entry.run_id else (held.run_id,)
    same_query = is_same_query(held, entry.query_id, takes_over=entry.take_over)
    other_query = () if same_query else (held.query_id,)
    return replaced(
        fresh,
        one_off=held.one_off,  # A streaming writer stays one, so it is never forgotten.
        generation=held.generation if same_query else held.generation + 1,
        last_batch=held.last_batch if same_query else None,
        batches=held.batches if same_query else {},
        former_runs=(*held.former_runs, *other_run)[-REMEMBERED_MAX:],
        former_opens=(*held.former_opens, held.open_id)[-REMEMBERED_MAX:],
        former_queries=(*held.former_queries, *other_query)[-REMEMBERED_MAX:],
    )


def with_last_batch(known: Writer | None, last: LastBatch) -> Writer:
    """The record of a writer after another partition reported its last batch.

    The query is unknown where the coordinator lacks the writer, or the generation of that batch.
    """
    batch = DecidedBatch(
        fingerprint=UNKNOWN,
        sequence=last.sequence,
        writer_epoch=last.writer_epoch,
        chunks_digest=UNKNOWN,
    )
    told = (last.generation, last.batch)
    if known and (known.generation, -1 if known.last_batch is None else known.last_batch) >= told:
        return known
    is_same = known is not None and known.generation == last.generation
    query_id = known.query_id if known is not None and is_same else UNKNOWN
    return Writer(
        name=last.writer,
        query_id=query_id,
        run_id=UNKNOWN,
        open_id=UNKNOWN,
        writer_epoch=last.writer_epoch,
        generation=last.generation,
        opened_at_ms=0 if known is None else known.opened_at_ms,
        one_off=last.one_off,
        last_batch=last.batch,
        batches={str(last.batch): batch},
        former_runs=() if known is None else (*known.former_runs, known.run_id),
        former_opens=() if known is None else (*known.former_opens, known.open_id),
        former_queries=() if known is None else known.former_queries,
    )


def digest_of(chunks: dict[str, tuple[ChunkReference, ...]]) -> str:
    """A digest of a batch's chunk list, for any order of its partitions."""
    ordered = sorted((partition, listed) for partition, listed in chunks.items() if listed)
    return hashlib.sha256(encode(ordered)).hexdigest()


def check_replay(
    held: Writer,
    batch: int,
    fingerprint: str,
    chunks: dict[str, tuple[ChunkReference, ...]],
) -> DecidedBatch | None:
    """The decision of this batch, None for a new batch. Raises BatchMismatchError."""
    if held.last_batch is None or batch > held.last_batch:
        return None
    decided = held.batches.get(str(batch))
    if decided is not None and decided.is_all_that_is_known:
        return decided
    if decided is None or decided.fingerprint != fingerprint:
        raise BatchMismatchError(
            f"batch {batch} of writer {held.name} was decided with other inputs: its "
            "checkpoint was restored or edited; start a new one, with "
            'onNewCheckpoint="takeOver"',
            last_batch=held.last_batch,
        )
    if decided.writer_epoch == held.writer_epoch and decided.chunks_digest != digest_of(chunks):
        raise BatchMismatchError(
            f"this run decided batch {batch} with other chunks: two sinks of one query need "
            "two writer names"
        )
    return decided


def expired_one_offs(writers: Iterable[Writer], now_ms: int) -> list[str]:
    """One-off writers that were closed ONE_OFF_RETENTION_MS ago: no replay of their batch comes."""
    return [
        writer.name
        for writer in writers
        if writer.one_off
        and writer.closed
        and now_ms - (writer.closed_at_ms or writer.opened_at_ms) > ONE_OFF_RETENTION_MS
    ]


def oldest_done_one_off(writers: Iterable[Writer], completed: Sequence) -> str | None:
    """The one-off writer whose batch was completed first; else the oldest that wrote no batch."""
    one_offs = [writer for writer in writers if writer.one_off]
    done = [
        (batch.sequence, writer.name)
        for writer in one_offs
        for batch in writer.batches.values()
        if batch.sequence <= completed
    ]
    if done:
        return min(done)[1]
    given_up = [
        (writer.opened_at_ms, writer.name)
        for writer in one_offs
        if writer.closed and not writer.batches
    ]
    return min(given_up)[1] if given_up else None


def replaced(writer: Writer, **changes: object) -> Writer:
    """The same writer, with other members."""
    members = {name: getattr(writer, name) for name in Writer.__struct_fields__}
    return Writer(**{**members, **changes})
