"""A writer's exchange run by hand: the store that it writes into, and its steps one by one."""

from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest

from qss_client.chunks.chunk import Slice
from qss_client.http.answer import HttpAnswer
from qss_client.http.retries import RetryAt
from qss_client.writes.exchanges import Run, Staged
from qss_client.writes.steps import Exchange, ExchangeStep, Pause, PodRequest
from qss_core.errors import NotReadyError, StoreError, UnreachableError
from qss_core.model import (
    Epoch,
    Ordinal,
    PartitionConfiguration,
    Partitioner,
    PartitionId,
    PodAddress,
    PodName,
    Sequence,
    StoreAssignment,
    StoreDefinition,
    StoreId,
    StoreName,
    StoreSettings,
    StoreType,
    WriterEpoch,
)
from qss_core.wire.messages import (
    ChunkReference,
    StoreMetadata,
    WriterOpened,
    encode,
    metadata_of,
)

PODS = 3
AT_ONCE, REFRESH = RetryAt(0.0, refresh=False), RetryAt(0.0, refresh=True)
LOST = UnreachableError("no answer")
BUSY = NotReadyError("recovering")


def metadata(*actives: int, store_id: str = "id-1", epoch: int = 1) -> StoreMetadata:
    """The metadata of a store whose partition p is active on pod `actives[p]`."""
    everywhere = tuple(Ordinal(number) for number in range(PODS))
    return metadata_of(
        StoreAssignment(
            definition=StoreDefinition(
                name=StoreName("words"),
                store_id=StoreId(store_id),
                type=StoreType.KEY_VALUE,
                format="Timestamped",
                key_serde="string",
                value_serde="json",
                partitioner=Partitioner.MURMUR2,
                partitions=len(actives),
            ),
            settings=StoreSettings(),
            pods=tuple(
                PodAddress(
                    ordinal=number,
                    name=PodName(f"words-{number}"),
                    query=f"http://query-{number}",
                    changelog=f"http://pod-{number}",
                )
                for number in everywhere
            ),
            partitions=tuple(
                PartitionConfiguration(
                    partition=PartitionId(number),
                    epoch=Epoch(epoch),
                    active=Ordinal(active),
                    in_sync=everywhere,
                    replicas=everywhere,
                )
                for number, active in enumerate(actives)
            ),
        )
    )


def silence() -> UnreachableError:
    """The error that a session throws where no answer comes in time."""
    error = UnreachableError("no answer within 2 s")
    error.__cause__ = TimeoutError()
    return error


def opened(known: StoreMetadata, chunk_bytes_max: int = 1000) -> WriterOpened:
    return WriterOpened(
        store_id=known.definition.store_id,
        writer_epoch=WriterEpoch(1_000_001),
        generation=3,
        last_batch=None,
        sequence=Sequence(4),
        chunk_bytes_max=chunk_bytes_max,
        metadata=known,
    )


def run_of(known: StoreMetadata, chunk_bytes_max: int = 1000) -> Run:
    return Run("words", "job", opened(known, chunk_bytes_max))


def rows(partition: int, text: str = "") -> Slice:
    data = f"[rows of {partition}{text}]".encode()
    return Slice(PartitionId(partition), 2, f"sum-{partition}{text}", data)


def staged(partition: int, chunk_id: str, text: str = "") -> Staged:
    return Staged(
        partition, ChunkReference(id=chunk_id, records=2, checksum=f"sum-{partition}{text}")
    )


def answer(message: object) -> HttpAnswer:
    return HttpAnswer(200, {}, encode(message))


def after(exchange: Exchange[Any], outcome: HttpAnswer | RetryAt | StoreError) -> ExchangeStep:
    """The step that follows an outcome."""
    return exchange.throw(outcome) if isinstance(outcome, StoreError) else exchange.send(outcome)


def asked(step: ExchangeStep) -> PodRequest:
    assert isinstance(step, PodRequest)
    return step


def paused(step: ExchangeStep) -> StoreError:
    """The failure for which an exchange pauses."""
    assert isinstance(step, Pause)
    return step.failure


def result(exchange: Exchange[Any], outcome: HttpAnswer) -> Any:
    """The result of an exchange after its last outcome."""
    with pytest.raises(StopIteration) as end:
        exchange.send(outcome)
    return end.value.value


def pod_and_path(request: PodRequest) -> str:
    return request.url.partition("?")[0].removeprefix("http://")


def query(request: PodRequest) -> dict[str, str]:
    return dict(parse_qsl(urlsplit(request.url).query))
