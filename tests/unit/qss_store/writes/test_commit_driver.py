"""The commit driver sends a decided batch until all partitions have applied it."""

import logging
from pathlib import Path

import pytest

from qss_core.errors import (
    BatchInProgressError,
    NotPresentError,
    NotReadyError,
    UnreachableError,
)
from qss_core.wire.messages import CommitPartitionsRequest, PartitionsAnswer
from qss_store.writes.commit_driver import active_coordinator
from qss_testing.fakes.scripted_pods import (
    QUICK,
    ScriptedPods,
    commit_request,
    is_commit,
    open_run,
    pod_among,
    rows_of,
    yes,
)
from qss_testing.pods.stores import open_memory
from qss_testing.waiting import wait_until_async

DOWN = UnreachableError("pod 1 is down")


async def test_only_partitions_that_failed_are_asked_again(tmp_path: Path) -> None:
    others = ScriptedPods()
    async with pod_among(others, tmp_path, open_memory(), pods=3, partitions=3) as services:
        opened = await open_run(services.coordinator)
        failing = 2

        async def reply(message: object) -> PartitionsAnswer:
            nonlocal failing
            if isinstance(message, CommitPartitionsRequest) and "1" in message.epochs and failing:
                failing -= 1
                raise DOWN
            return await yes(message)

        others.reply = reply
        answer = await services.coordinator.commit("job", opened.writer_epoch, 0, commit_request(0))
        assert answer.sequence == 1
        asked = [list(message.epochs) for message in others.messages("commit")]
        assert sorted(asked) == [["1"], ["1"], ["1"], ["2"]]


async def test_a_decision_that_takes_long_is_told_and_driven_on(tmp_path: Path) -> None:
    others = ScriptedPods()
    async with pod_among(others, tmp_path, open_memory(), settings=QUICK) as services:
        coordinator = services.coordinator
        opened = await open_run(coordinator)
        others.fail(CommitPartitionsRequest, DOWN)
        with pytest.raises(BatchInProgressError):
            await coordinator.commit("job", opened.writer_epoch, 0, commit_request(0))
        _, state = active_coordinator(services.pod)
        assert state.unfinished is not None
        assert coordinator.recent.after(0) == ()
        others.reply = yes
        await wait_until_async(lambda: state.unfinished is None)
        assert state.completed == 1
        # Its client has got an error; it took until now, and is told as any other batch.
        (late,) = coordinator.recent.after(0)
        assert (late.sequence, late.batch, late.writer) == (1, 0, "job")
        assert late.latency_ms >= 1000 * QUICK.finish_timeout_s


async def test_a_coordinator_that_may_not_answer_does_not_say_that_a_batch_is_complete(
    tmp_path: Path,
) -> None:
    """Partition 0 takes a new epoch after a decision: the batch is not in all partitions."""
    others = ScriptedPods()
    async with pod_among(others, tmp_path, open_memory()) as services:
        coordinator, registry = services.coordinator, services.pod.registry
        opened = await open_run(coordinator)
        others.asked.clear()

        async def reply(message: object) -> PartitionsAnswer:
            # The coordinator prepares: from now on this pod may not answer for partition 0.
            registry.is_compared = False
            return await yes(message)

        others.reply = reply
        with pytest.raises(NotReadyError):
            await coordinator.commit("job", opened.writer_epoch, 0, commit_request(0))
        registry.is_compared = True
        _, state = active_coordinator(services.pod)
        assert (state.decided, state.completed) == (1, 0)
        others.reply = yes
        await wait_until_async(lambda: state.completed == 1)


async def test_a_pod_that_starts_goes_on_with_the_rows_in_its_log(tmp_path: Path) -> None:
    others, open_engine = ScriptedPods(), open_memory()
    async with pod_among(others, tmp_path, open_engine, settings=QUICK) as services:
        definition = services.pod.registry.placed().definition
        rows = (rows_of(definition, 0), rows_of(definition, 1))
        opened = await open_run(services.coordinator)
        others.fail(CommitPartitionsRequest, DOWN)
        with pytest.raises(BatchInProgressError):
            await services.coordinator.commit(
                "job", opened.writer_epoch, 0, commit_request(0), rows
            )
        sent = [message.rows for message in others.messages("commit")]
        others.asked.clear()
    others.reply = yes
    async with pod_among(others, tmp_path, open_engine) as services:
        services.coordinator.driver.go_on()
        await services.coordinator.driver.finish()
        (message,) = filter(is_commit, others.messages("commit"))
        assert message.rows == sent[0] == {"1": bytes(rows[1].data)}
        assert message.decision.writer_epoch == opened.writer_epoch


async def test_a_pod_without_partition_0_drives_nothing(tmp_path: Path) -> None:
    others = ScriptedPods()
    async with pod_among(others, tmp_path, open_memory(), ordinal=1) as services:
        services.coordinator.driver.go_on()
        with pytest.raises(NotPresentError):  # It does not know whether a batch is complete.
            await services.coordinator.driver.finish()
        assert services.coordinator.tasks == []
        assert others.asked == []


async def test_a_complete_decision_is_not_driven_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    others = ScriptedPods()
    async with pod_among(others, tmp_path, open_memory()) as services:
        opened = await open_run(services.coordinator)
        await services.coordinator.commit("job", opened.writer_epoch, 0, commit_request(0))
        await services.coordinator.driver.finish()
        count = len(others.asked)
        with caplog.at_level(logging.INFO, "qss_store.writes.commit_driver"):
            services.coordinator.driver.go_on()
            await services.coordinator.driver.finish()
        assert len(others.asked) == count
        assert caplog.records == []
