"""The rules for runs, checkpoints, replays and late messages, over HTTP."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from qss_core.model import PartitionId
from qss_testing.clients.http import Answer
from qss_testing.pods.stores import open_rocksdb
from qss_testing.pods.write_cluster import (
    Chunks,
    WriteCluster,
    Writer,
    decide,
    reference_of,
    write_cluster,
)
from qss_testing.waiting import wait_until_async

A, B = {b"k": b"a"}, {b"k": b"b"}


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[WriteCluster]:
    async with write_cluster(tmp_path) as cluster:
        yield cluster


@pytest.fixture
def writer(cluster: WriteCluster) -> Writer:
    return cluster.writer()


async def staged_everywhere(cluster: WriteCluster, epoch: int, batch: int, rows: Any) -> Chunks:
    """Stages the same rows in all partitions, each at its active."""
    chunks: Chunks = {}
    for partition in range(4):
        to = cluster.writer(partition % 2)
        chunks |= await to.stage(epoch, batch, f"{epoch}.t{batch}.{partition}", {partition: rows})
    return chunks


def everywhere(cluster: WriteCluster, rows: Any) -> bool:
    return all(cluster.rows(partition) == rows for partition in range(4))


# --- Runs


async def test_an_older_run_can_stage_but_neither_commit_nor_renew(
    cluster: WriteCluster, writer: Writer
) -> None:
    older = await writer.epoch("older")
    before = await staged_everywhere(cluster, older, 0, A)
    younger = await writer.epoch("younger")
    (await writer.commit(older, 0, before)).problem(409, "STALE_WRITER")
    (await writer.renew(older)).problem(409, "STALE_WRITER")
    await writer.stage(older, 0, f"{older}.late.0", {0: A})
    (await writer.commit(younger, 0, await staged_everywhere(cluster, younger, 0, B))).json()
    assert everywhere(cluster, B)
    assert cluster.staged() == set(), "chunks of the older run are dropped, too"
    (await writer.open("older")).problem(409, "STALE_WRITER")


async def test_an_opening_that_is_sent_twice_gets_the_same_epoch(
    cluster: WriteCluster, writer: Writer
) -> None:
    first, again = await asyncio.gather(writer.open(), cluster.writer(1).open())
    assert first.json()["writerEpoch"] == again.json()["writerEpoch"]
    assert (await writer.open()).json()["writerEpoch"] == first.json()["writerEpoch"]


async def test_another_checkpoint_is_refused_and_may_take_over(
    cluster: WriteCluster, writer: Writer
) -> None:
    old = await writer.epoch()
    chunks = await staged_everywhere(cluster, old, 7, A)
    (await writer.commit(old, 7, chunks)).json()
    refused = (await writer.open("r2", "other")).problem(409, "OTHER_CHECKPOINT")
    assert "takeOver" in refused["detail"]
    (await writer.renew(old)).json()
    taken = (await writer.open("r2", "other", takeOver=True)).json()
    assert (taken["generation"], taken["lastBatch"]) == (2, None)
    new = taken["writerEpoch"]
    chunks = await writer.stage(new, 0, f"{new}.t.0", {0: B}, generation=2)
    # A batch of the first generation is not taken for one of the second.
    (await writer.commit(new, 0, chunks, generation=1)).problem(409, "STALE_WRITER")
    (await writer.commit(new, 0, chunks, generation=2, replace=True)).json()
    assert [cluster.rows(partition) for partition in range(4)] == [B, {}, {}, {}]
    (await writer.open("r3", "query")).problem(409, "STALE_WRITER")


async def test_two_drivers_on_one_checkpoint_write_each_batch_once(
    cluster: WriteCluster, writer: Writer
) -> None:
    first, second = await writer.epoch("first"), await writer.epoch("second")
    assert first < second
    chunks = [
        await staged_everywhere(cluster, run, 0, rows) for run, rows in [(first, A), (second, B)]
    ]
    answers = await asyncio.gather(
        *(writer.commit(run, 0, of_it) for run, of_it in zip((first, second), chunks, strict=True))
    )
    answers[0].problem(409, "STALE_WRITER")
    assert answers[1].json()["sequence"] == 1
    assert everywhere(cluster, B)


# --- Replays and order


async def test_a_batch_that_is_replayed_is_known_by_its_fingerprint(
    cluster: WriteCluster, writer: Writer
) -> None:
    epoch = await writer.epoch()
    chunks = await staged_everywhere(cluster, epoch, 0, A)
    first = (await writer.commit(epoch, 0, chunks)).json()
    again = (await writer.commit(epoch, 0, chunks)).json()
    assert (first["alreadyApplied"], again["alreadyApplied"]) == (False, True)
    assert (first["sequence"], first["position"]) == (again["sequence"], again["position"])
    restarted = await writer.epoch("run-2")
    assert (await writer.commit(restarted, 0, {})).json()["alreadyApplied"]
    mismatch = (await writer.commit(restarted, 0, {}, "other")).problem(409, "BATCH_MISMATCH")
    assert "takeOver" in mismatch["detail"]
    assert everywhere(cluster, A)
    assert cluster.replica(0).machine.participant.sequence == 1


async def test_two_sinks_with_one_writer_name_are_refused(
    cluster: WriteCluster, writer: Writer
) -> None:
    epoch = await writer.epoch()
    one = await writer.stage(epoch, 0, f"{epoch}.one.0", {0: A})
    other = await writer.stage(epoch, 0, f"{epoch}.other.0", {0: B})
    answers = await asyncio.gather(writer.commit(epoch, 0, one), writer.commit(epoch, 0, other))
    assert sorted(answer.status for answer in answers) == [200, 409]
    refused = max(answers, key=lambda answer: answer.status).problem(409, "BATCH_MISMATCH")
    assert "two writer names" in refused["detail"]


async def test_the_same_commit_twice_at_once_is_applied_once(
    cluster: WriteCluster, writer: Writer
) -> None:
    epoch = await writer.epoch()
    chunks = await staged_everywhere(cluster, epoch, 0, A)
    answers = await asyncio.gather(
        *(cluster.writer(number % 2).commit(epoch, 0, chunks) for number in range(8))
    )
    told = [answer.json() for answer in answers]
    assert [one["sequence"] for one in told] == [1] * 8
    assert sorted(one["alreadyApplied"] for one in told) == [False] + [True] * 7


async def test_a_gap_is_refused_and_the_missing_batch_is_taken(
    cluster: WriteCluster, writer: Writer
) -> None:
    epoch = await writer.epoch()
    (await writer.commit(epoch, 3, {})).json()  # The first batch may have any number.
    (await writer.commit(epoch, 5, {})).problem(409, "BATCH_GAP")
    (await writer.commit(epoch, 4, {})).json()
    (await writer.commit(epoch, 2, {})).problem(409, "BATCH_MISMATCH")


async def test_a_stage_of_a_batch_that_was_applied_is_closed(
    cluster: WriteCluster, writer: Writer
) -> None:
    epoch = await writer.epoch()
    chunks = await staged_everywhere(cluster, epoch, 0, A)
    (await writer.commit(epoch, 0, chunks)).json()
    late = await writer.stage_failures(epoch, 0, f"{epoch}.late.0", {0: B, 2: B})
    assert late == {0: "BATCH_CLOSED", 2: "BATCH_CLOSED"}
    assert cluster.staged() == set()
    assert everywhere(cluster, A)


async def test_a_commit_of_a_chunk_that_is_not_staged_decides_nothing(
    cluster: WriteCluster, writer: Writer
) -> None:
    epoch = await writer.epoch()
    chunks = await writer.stage(epoch, 0, f"{epoch}.t.0", {0: A})
    lost = {**chunks, 1: [reference_of(f"{epoch}.t.0", 1, A)]}
    refused = (await writer.commit(epoch, 0, lost)).problem(409, "CHUNK_MISSING")
    assert refused["details"]["chunk"] == f"{epoch}.t.0"
    assert cluster.rows(0) == {}
    coordinator = cluster.replica(0).machine.coordinator
    assert coordinator is not None
    assert coordinator.decision is None
    await cluster.writer(1).stage(epoch, 0, f"{epoch}.t.0", {1: A})
    (await writer.commit(epoch, 0, lost)).json()
    assert (cluster.rows(0), cluster.rows(1)) == (A, A)


async def test_only_the_listed_attempt_of_a_retried_task_is_applied(
    cluster: WriteCluster, writer: Writer
) -> None:
    epoch = await writer.epoch()
    await writer.stage(epoch, 0, f"{epoch}.attempt1.0", {0: {b"k": b"1", b"only-1": b"1"}})
    won = await writer.stage(epoch, 0, f"{epoch}.attempt2.0", {0: {b"k": b"2"}})
    await writer.stage(epoch, 0, f"{epoch}.attempt3.0", {0: {b"k": b"3"}})
    (await writer.commit(epoch, 0, won)).json()
    assert cluster.rows(0) == {b"k": b"2"}
    assert cluster.staged() == set()


# --- Aborts


async def test_an_abort_drops_the_batch_and_closes_the_run(
    cluster: WriteCluster, writer: Writer
) -> None:
    epoch = await writer.epoch()
    chunks = await staged_everywhere(cluster, epoch, 0, A)
    assert (await cluster.writer(1).abort(epoch, 0)).json() == {"decided": False}
    assert cluster.staged() == set()
    (await writer.commit(epoch, 0, chunks)).problem(409, "STALE_WRITER")
    assert (await writer.abort(epoch, 0)).json() == {"decided": False}, "a second abort is harmless"
    again = await writer.epoch(openId="again")
    (await writer.commit(again, 0, await staged_everywhere(cluster, again, 0, B))).json()
    assert everywhere(cluster, B)


async def test_an_abort_after_the_decision_does_nothing(
    cluster: WriteCluster, writer: Writer
) -> None:
    epoch = await writer.epoch()
    (await writer.commit(epoch, 0, await staged_everywhere(cluster, epoch, 0, A))).json()
    staged = await staged_everywhere(cluster, epoch, 1, B)
    assert (await writer.abort(epoch, 0)).json() == {"decided": True}
    assert everywhere(cluster, A)
    (await writer.commit(epoch, 1, staged)).json()
    assert everywhere(cluster, B)


async def test_an_abort_of_a_run_that_was_never_opened_is_refused(
    cluster: WriteCluster, writer: Writer
) -> None:
    epoch = await writer.epoch()
    chunks = await staged_everywhere(cluster, epoch, 0, A)
    (await writer.abort(epoch + 1, 0)).problem(409, "STALE_WRITER")
    (await writer.commit(epoch, 0, chunks)).json()
    assert everywhere(cluster, A)


async def test_an_abort_of_an_older_run_drops_no_chunk_of_a_younger_run(
    cluster: WriteCluster, writer: Writer
) -> None:
    older = await writer.epoch("older")
    await staged_everywhere(cluster, older, 0, A)
    younger = await writer.epoch("younger")
    chunks = await staged_everywhere(cluster, younger, 0, B)
    assert (await writer.abort(older, 0)).json() == {"decided": False}
    assert {chunk for _, chunk in cluster.staged()} == {one[0].id for one in chunks.values()}
    (await writer.commit(younger, 0, chunks)).json()
    assert everywhere(cluster, B)


async def test_an_abort_drops_no_chunk_of_an_unfinished_decision(
    cluster: WriteCluster, writer: Writer
) -> None:
    epoch = await writer.epoch()
    (await writer.commit(epoch, 0, {})).json()
    chunks = await staged_everywhere(cluster, epoch, 1, A)
    await cluster.stop_pod(1)  # Half of the partitions cannot prepare.
    (await writer.commit(epoch, 1, chunks)).problem(503, "UNREACHABLE")
    await cluster.start_pod(1)
    await decide(cluster, writer, 1, chunks)
    # An abort of an older batch must not drop the decided batch.
    assert (await writer.abort(epoch, 0, generation=0)).json() == {"decided": False}
    assert len(cluster.staged()) == 4
    (await writer.open("run-2")).json()
    assert everywhere(cluster, A)


# --- Messages between pods


def transaction(cluster: WriteCluster, **changes: Any) -> dict[str, Any]:
    return {
        "storeId": cluster.definition.store_id,
        "epochs": {"0": 1, "2": 1},
        "writer": "job",
        "generation": 1,
        "batch": 0,
        "writerEpoch": 1_000_001,
        **changes,
    }


def decision(**changes: Any) -> dict[str, Any]:
    return {
        "sequence": 1,
        "writer": "job",
        "generation": 1,
        "batch": 0,
        "writerEpoch": 1_000_001,
        "chunks": {},
        "position": {},
        "wallTimeMs": 0,
        "fingerprint": "f",
        "replace": False,
        **changes,
    }


def requests(cluster: WriteCluster, **changes: Any) -> dict[str, dict[str, Any]]:
    both = transaction(cluster, **changes)
    of_commit = {name: both[name] for name in ("storeId", "epochs")}
    return {
        "prepare": {**both, "chunks": {}},
        "abort": both,
        "commit": {**of_commit, "decision": decision()},
    }


async def test_a_message_of_another_epoch_is_refused_by_its_partition_alone(
    cluster: WriteCluster,
) -> None:
    for what, body in requests(cluster, epochs={"0": 0, "2": 2}).items():
        answer = await cluster.pods[0].internal.post(f"/transactions/{what}", body)
        codes = {one["code"] for one in answer.json()["partitions"].values()}
        assert codes == {"STALE_EPOCH"}
    for what, body in requests(cluster, epochs={"0": 0, "2": 1}).items():
        answer = await cluster.pods[0].internal.post(f"/transactions/{what}", body)
        partitions = answer.json()["partitions"]
        assert (partitions["0"]["code"], partitions["2"]) == ("STALE_EPOCH", None)
    assert cluster.replica(0).machine.participant.sequence == 0
    assert cluster.replica(2).machine.participant.sequence == 1


async def test_a_message_of_another_store_is_refused(cluster: WriteCluster) -> None:
    bodies = requests(cluster, storeId="another")
    resolve = {name: value for name, value in transaction(cluster).items() if name != "epochs"}
    bodies["resolve"] = {**resolve, "storeId": "another"}
    for what, body in bodies.items():
        answer = await cluster.pods[0].internal.post(f"/transactions/{what}", body)
        answer.problem(409, "WRONG_STORE")
    assert cluster.replica(0).log.end == 0


async def test_repeated_commits_are_applied_once_and_in_order(
    cluster: WriteCluster,
) -> None:
    async def commit(sequence: int, batch: int) -> Answer:
        body = {
            **requests(cluster)["commit"],
            "decision": decision(sequence=sequence, batch=batch),
        }
        return await cluster.pods[0].internal.post("/transactions/commit", body)

    early = (await commit(2, 1)).json()["partitions"]
    assert {one["code"] for one in early.values()} == {"OUT_OF_ORDER"}
    for sequence, batch in [(1, 0), (1, 0), (2, 1), (1, 0), (2, 1)]:
        assert (await commit(sequence, batch)).json()["partitions"] == {"0": None, "2": None}
    for partition in (0, 2):
        participant = (
            cluster.pods[0].pod.registry.replicas[PartitionId(partition)].machine.participant
        )
        assert participant.sequence == 2


async def test_a_commit_with_a_missing_chunk_is_not_applied(
    cluster: WriteCluster,
) -> None:
    missing = {"0": [["1000001.t.0", 1, "00000000"]]}
    body = {**requests(cluster)["commit"], "decision": decision(chunks=missing)}
    partitions = (await cluster.pods[0].internal.post("/transactions/commit", body)).json()
    assert partitions["partitions"]["0"]["code"] == "CHUNK_MISSING"
    assert partitions["partitions"]["2"] is None
    assert cluster.replica(0).machine.participant.sequence == 0


async def test_a_count_covers_the_visible_rows_while_a_replacing_commit_waits(
    tmp_path: Path,
) -> None:
    async with write_cluster(tmp_path, pods=1, partitions=1, open_engine=open_rocksdb()) as cluster:
        writer = cluster.writer()
        epoch = await writer.epoch()
        rows = {b"k%d" % number: b"v" for number in range(100)}
        chunks = await writer.stage(epoch, 0, f"{epoch}.t.0", {0: rows})
        (await writer.commit(epoch, 0, chunks)).json()
        replica = cluster.replica(0)
        chunks = await writer.stage(epoch, 1, f"{epoch}.t.1", {0: {b"k": b"v"}})
        async with replica.format_change.redefining(
            replica.definition
        ):  # A change of format waits for its sync.
            commit = asyncio.ensure_future(writer.commit(epoch, 1, chunks, replace=True))
            await wait_until_async(lambda: replica.log.applied < replica.log.watermark)
            assert replica.views.approximate_count() == 100
        (await commit).json()
        assert replica.views.approximate_count() == 1
