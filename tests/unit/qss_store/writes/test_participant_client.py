"""The coordinator's requests to participants: one for each pod, an answer for each partition."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from qss_core.errors import UnreachableError
from qss_core.model import Epoch, Ordinal, PartitionId, Sequence, StoreId, WriterEpoch
from qss_core.wire.messages import (
    CommitPartitionsRequest,
    Decision,
    PartitionsAnswer,
    PrepareRequest,
    problem_of,
)
from qss_store.writes.participant_client import ParticipantClient
from qss_store.writes.pod_services import PodServices
from qss_testing.fakes.scripted_pods import QUICK, ScriptedPods, never, pod_among, rows_of
from qss_testing.pods.stores import open_memory
from qss_testing.waiting import wait_until_async

STORE_ID = StoreId("5f0c")


@pytest.fixture
def others() -> ScriptedPods:
    return ScriptedPods()


@pytest.fixture
async def services(others: ScriptedPods, tmp_path: Path) -> AsyncIterator[PodServices]:
    """Pod 0 of three. It has partitions 0 and 3, pod 1 has 1 and 4, pod 2 has 2."""
    async with pod_among(others, tmp_path, open_memory(), pods=3, partitions=5) as made:
        yield made


@pytest.fixture
def client(services: PodServices, others: ScriptedPods) -> ParticipantClient:
    return ParticipantClient(services.pod, services.participant, others, QUICK)


def prepare(epochs: dict[str, Epoch]) -> PrepareRequest:
    """A prepare message that names no batch."""
    return PrepareRequest(
        store_id=STORE_ID,
        epochs=epochs,
        writer="",
        generation=0,
        batch=0,
        writer_epoch=WriterEpoch(0),
        chunks={},
    )


def commit(epochs: dict[str, Epoch]) -> CommitPartitionsRequest:
    decision = Decision(
        sequence=Sequence(1),
        writer="job",
        generation=1,
        batch=0,
        writer_epoch=WriterEpoch(1),
        chunks={},
        position={},
        wall_time_ms=0,
        fingerprint="f",
        replace=False,
    )
    return CommitPartitionsRequest(store_id=STORE_ID, epochs=epochs, decision=decision)


async def test_each_other_pod_gets_one_request_for_its_partitions_in_their_epochs(
    client: ParticipantClient, others: ScriptedPods
) -> None:
    assert await client.ask("prepare", prepare, client.all_partitions) == {}
    asked = {host: message.epochs for host, _, message in others.asked}
    assert asked == {"1": {"1": 1, "4": 1}, "2": {"2": 1}}
    assert len(others.asked) == 2


async def test_a_pod_that_does_not_answer_fails_its_partitions_alone(
    client: ParticipantClient, others: ScriptedPods
) -> None:
    async def reply(message: PrepareRequest) -> PartitionsAnswer:
        if "2" in message.epochs:
            return PartitionsAnswer(partitions=dict.fromkeys(message.epochs))
        raise UnreachableError("pod 1 is down")

    others.reply = reply
    failures = await client.ask("prepare", prepare, client.all_partitions)
    assert failures == dict.fromkeys("14", problem_of(UnreachableError("pod 1 is down")))


async def test_a_pod_that_stands_still_is_waited_for_only_while_it_has_the_active(
    client: ParticipantClient, others: ScriptedPods, services: PodServices
) -> None:
    others.reply = never
    asked = asyncio.create_task(client.ask("prepare", prepare, ["1", "4"]))
    await wait_until_async(lambda: len(others.asked) == 1)
    held = services.pod.registry.placed()
    of_one = replace(
        held.partitions[1], epoch=Epoch(2), active=Ordinal(2), in_sync=(2,), replicas=(2,)
    )
    moved = (held.partitions[0], of_one, *held.partitions[2:])
    await services.pod.assign(replace(held, partitions=moved))
    async with asyncio.timeout(10):
        failures = await asked
    codes = {name: problem.code for name, problem in failures.items()}
    assert codes == {"1": "UNREACHABLE", "4": "UNREACHABLE"}, "both go again, where they are now"


async def test_a_partition_that_an_answer_leaves_out_did_not_answer(
    client: ParticipantClient, others: ScriptedPods
) -> None:
    async def reply(message: PrepareRequest) -> PartitionsAnswer:
        first = min(message.epochs)
        return PartitionsAnswer(partitions={first: None})

    others.reply = reply
    failures = await client.ask("prepare", prepare, client.all_partitions)
    assert {name: problem.code for name, problem in failures.items()} == {"4": "UNREACHABLE"}


async def test_rows_go_to_the_pod_of_their_partition_and_to_no_other(
    client: ParticipantClient, others: ScriptedPods, services: PodServices
) -> None:
    definition = services.pod.registry.placed().definition
    rows = {PartitionId(number): rows_of(definition, number) for number in (1, 2, 3)}
    failures, _ = await client.commit(commit, ["1", "2", "4"], rows)
    assert failures == {}
    sent = {host: message.rows for host, _, message in others.asked}
    assert sent == {number: {number: bytes(rows[PartitionId(int(number))].data)} for number in "12"}


async def test_dropped_rows_of_all_pods_are_told_together(
    client: ParticipantClient, others: ScriptedPods
) -> None:
    async def reply(message: CommitPartitionsRequest) -> PartitionsAnswer:
        dropped = {name: int(name) * 10 for name in message.epochs}
        return PartitionsAnswer(partitions=dict.fromkeys(message.epochs), dropped=dropped)

    others.reply = reply
    failures, dropped = await client.commit(commit, ["1", "2", "4"], {})
    assert (failures, dropped) == ({}, {"1": 10, "2": 20, "4": 40})


async def test_the_newest_epoch_is_that_of_any_pod_that_answers_soon(
    client: ParticipantClient, others: ScriptedPods
) -> None:
    async def reply(message: PrepareRequest) -> PartitionsAnswer:
        nothing = dict.fromkeys(message.epochs)
        return PartitionsAnswer(partitions=nothing, writer_epoch=WriterEpoch(len(nothing) + 6))

    others.reply = reply
    assert await client.newest_epoch() == 8
    others.reply = never
    async with asyncio.timeout(10):
        assert await client.newest_epoch() == 8, "a pod that hangs holds nobody up"
