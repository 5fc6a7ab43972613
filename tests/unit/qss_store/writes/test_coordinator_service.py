"""The coordinator's service: its decisions, and its messages to other pods."""

import asyncio
from pathlib import Path

import pytest

from qss_core.errors import (
    BatchGapError,
    MalformedRequestError,
    NotPresentError,
    StaleWriterError,
    UnreachableError,
    WrongStoreError,
)
from qss_core.model import StoreId, WriterEpoch
from qss_core.wire.messages import (
    AbortPartitionsRequest,
    AbortRequest,
    PartitionsAnswer,
    PrepareRequest,
    ResolveRequest,
)
from qss_store.writes.commit_driver import active_coordinator
from qss_testing.fakes.scripted_pods import (
    ScriptedPods,
    commit_request,
    open_run,
    pod_among,
    yes,
)
from qss_testing.pods.stores import open_memory

DOWN = UnreachableError("pod 1 is down")


async def test_a_batch_that_a_pod_cannot_prepare_is_not_decided(tmp_path: Path) -> None:
    others = ScriptedPods()
    async with pod_among(others, tmp_path, open_memory()) as services:
        opened = await open_run(services.coordinator)
        others.fail(PrepareRequest, DOWN)
        with pytest.raises(UnreachableError, match="pod 1 is down"):
            await services.coordinator.commit("job", opened.writer_epoch, 0, commit_request(0))
        assert active_coordinator(services.pod)[1].decided == 0
        assert others.messages("commit") == []
        others.reply = yes
        answer = await services.coordinator.commit("job", opened.writer_epoch, 0, commit_request(0))
        assert (answer.sequence, answer.already_applied) == (1, False)


async def test_a_failure_that_only_another_request_mends_is_told_before_others(
    tmp_path: Path,
) -> None:
    others = ScriptedPods()
    async with pod_among(others, tmp_path, open_memory(), pods=3, partitions=3) as services:
        opened = await open_run(services.coordinator)

        async def reply(message: PrepareRequest) -> PartitionsAnswer:
            raise DOWN if "1" in message.epochs else MalformedRequestError("no such chunk")

        others.reply = reply
        with pytest.raises(MalformedRequestError):
            await services.coordinator.commit("job", opened.writer_epoch, 0, commit_request(0))


async def test_a_repeat_is_answered_and_nothing_is_decided_again(tmp_path: Path) -> None:
    others = ScriptedPods()
    async with pod_among(others, tmp_path, open_memory()) as services:
        opened = await open_run(services.coordinator)
        first, beside = await asyncio.gather(
            *(
                services.coordinator.commit("job", opened.writer_epoch, 0, commit_request(0))
                for _ in range(2)
            )
        )
        later = await services.coordinator.commit("job", opened.writer_epoch, 0, commit_request(0))
        assert [one.sequence for one in (first, beside, later)] == [1, 1, 1]
        assert [one.already_applied for one in (first, beside, later)] == [False, True, True]
        assert len(others.messages("commit")) == 1
        with pytest.raises(BatchGapError):
            await services.coordinator.commit("job", opened.writer_epoch, 2, commit_request(2))


async def test_a_run_gets_an_epoch_above_those_that_any_pod_has_seen(tmp_path: Path) -> None:
    others = ScriptedPods()

    async def reply(message: PrepareRequest) -> PartitionsAnswer:
        return PartitionsAnswer(
            partitions=dict.fromkeys(message.epochs), writer_epoch=WriterEpoch(5_000_041)
        )

    others.reply = reply
    async with pod_among(others, tmp_path, open_memory()) as services:
        first = await open_run(services.coordinator)
        assert first.writer_epoch == 5_000_042
        second = await open_run(services.coordinator, "next")
        assert second.writer_epoch == 5_000_043
        with pytest.raises(StaleWriterError):
            await services.coordinator.commit("job", first.writer_epoch, 0, commit_request(0))


async def test_an_abort_needs_no_answer_of_the_pods_that_it_tells(tmp_path: Path) -> None:
    others = ScriptedPods()
    async with pod_among(others, tmp_path, open_memory()) as services:
        coordinator = services.coordinator
        opened = await open_run(coordinator)
        others.fail(AbortPartitionsRequest, DOWN)
        request = AbortRequest(generation=opened.generation)
        answer = await coordinator.abort("job", opened.writer_epoch, 0, request)
        assert not answer.decided
        assert [message.batch for message in others.messages("abort")] == [0]
        with pytest.raises(StaleWriterError):
            await coordinator.commit("job", opened.writer_epoch, 0, commit_request(0))


async def test_a_decided_batch_is_not_given_up(tmp_path: Path) -> None:
    others = ScriptedPods()
    async with pod_among(others, tmp_path, open_memory()) as services:
        coordinator = services.coordinator
        opened = await open_run(coordinator)
        await coordinator.commit("job", opened.writer_epoch, 0, commit_request(0))
        request = AbortRequest(generation=opened.generation)
        assert (await coordinator.abort("job", opened.writer_epoch, 0, request)).decided
        assert others.messages("abort") == []


async def test_old_chunks_are_resolved_for_the_same_store_alone(tmp_path: Path) -> None:
    others = ScriptedPods()
    async with pod_among(others, tmp_path, open_memory()) as services:
        coordinator = services.coordinator
        opened = await open_run(coordinator)
        await coordinator.commit("job", opened.writer_epoch, 0, commit_request(0))
        held = services.pod.registry.placed().definition.store_id

        def verdict(batch: int, store_id: StoreId = held) -> str:
            return coordinator.resolve(
                ResolveRequest(
                    store_id=store_id,
                    writer="job",
                    generation=opened.generation,
                    batch=batch,
                    writer_epoch=opened.writer_epoch,
                )
            ).verdict

        assert (verdict(0), verdict(1)) == ("decided", "open")
        with pytest.raises(WrongStoreError):
            verdict(0, StoreId("other"))


async def test_a_pod_without_partition_0_sends_its_callers_on(tmp_path: Path) -> None:
    async with pod_among(ScriptedPods(), tmp_path, open_memory(), ordinal=1) as services:
        with pytest.raises(NotPresentError):
            await open_run(services.coordinator)
