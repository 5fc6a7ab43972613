"""What the coordinator keeps of one writer."""

import hashlib

import msgspec

from qss_core.model import Sequence, Wire, WriterEpoch
from qss_core.wire import ChunkReference, encode


class DecidedBatch(Wire, frozen=True, kw_only=True):
    """What is kept of a decision to recognise a replay."""

    fingerprint: str
    sequence: Sequence
    writer_epoch: WriterEpoch
    chunks_digest: str


class Writer(Wire, frozen=True, kw_only=True):
    """One named producer of the store. `writer_epoch` is its youngest run's."""

    name: str
    query_id: str
    run_id: str
    open_id: str
    writer_epoch: WriterEpoch
    generation: int
    opened_at_ms: int
    closed: bool = False
    closed_at_ms: int | None = None  # By the wall clock of the pod that logged it.
    one_off: bool = False
    last_batch: int | None = None
    batches: dict[str, DecidedBatch] = msgspec.field(default_factory=dict)
    former_runs: tuple[str, ...] = ()
    former_opens: tuple[str, ...] = ()
    former_queries: tuple[str, ...] = ()


def digest_of(chunks: dict[str, tuple[ChunkReference, ...]]) -> str:
    """A digest of a batch's chunk list, whatever the order of its partitions."""
    ordered = sorted((partition, listed) for partition, listed in chunks.items() if listed)
    return hashlib.sha256(encode(ordered)).hexdigest()


def replaced(writer: Writer, **changes: object) -> Writer:
    """The same writer, with other members."""
    members = {name: getattr(writer, name) for name in Writer.__struct_fields__}
    return Writer(**{**members, **changes})
