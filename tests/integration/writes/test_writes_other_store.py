"""A run of a deleted store writes nothing into a new store with the same name."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from qss_core.model import StoreId
from qss_testing.clients.http import Answer
from qss_testing.pods.write_cluster import WriteCluster, Writer, chunk_of, write_cluster

Request = Callable[[Writer, int], Awaitable[Answer]]
REQUESTS: dict[str, Request] = {
    "open": lambda writer, _: writer.open("old-run-2", "old-query"),
    "stage": lambda writer, epoch: writer.put(
        epoch, 1, f"{epoch}.t.1", chunk_of({0: {b"a": b"ghost"}})
    ),
    "commit": lambda writer, epoch: writer.commit(epoch, 1, {}),
    "abort": lambda writer, epoch: writer.abort(epoch, 1),
    "renew": lambda writer, epoch: writer.renew(epoch),
}


async def begun(cluster: WriteCluster, run: str) -> tuple[Writer, int]:
    writer = cluster.writer()
    epoch = await writer.epoch(f"{run}-run", f"{run}-query")
    chunks = await writer.stage(epoch, 0, f"{epoch}.t.0", {0: {b"a": run.encode()}})
    (await writer.commit(epoch, 0, chunks)).json()
    return writer, epoch


@pytest.mark.parametrize("asked", [0, 1], ids=["coordinator", "passed-on"])
@pytest.mark.parametrize("request_of", REQUESTS.values(), ids=REQUESTS.keys())
async def test_a_request_of_the_old_stores_run_is_refused(
    tmp_path: Path, request_of: Request, asked: int
) -> None:
    async with write_cluster(tmp_path / "old", partitions=2) as old:
        _, old_epoch = await begun(old, "old")
        old_id = old.definition.store_id
    new_id = StoreId("store-2")
    async with write_cluster(tmp_path / "new", partitions=2, store_id=new_id) as new:
        _, epoch = await begun(new, "new")
        assert epoch == old_epoch, "both stores gave the same writer epoch"
        ends = [new.replica(partition).log.end for partition in (0, 1)]
        ghost = Writer(new.pods[asked].internal, "job", old_id)
        problem = (await request_of(ghost, old_epoch)).problem(409, "WRONG_STORE")
        assert problem["details"]["store_id"] == new_id
        assert "made again" in problem["detail"]
        assert [new.replica(partition).log.end for partition in (0, 1)] == ends
        assert new.rows(0) == {b"a": b"new"}
        assert (await new.writer().commit(epoch, 1, {})).status == 200


async def test_a_request_without_a_store_id_is_refused_and_says_where_to_find_it(
    tmp_path: Path,
) -> None:
    async with write_cluster(tmp_path, partitions=1, pods=1) as cluster:
        path = cluster.writer().path
        body = {"queryId": "q", "runId": "r", "openId": "o"}
        answer = await cluster.pods[0].internal.post(path, body)
        problem = answer.problem(400, "MALFORMED_REQUEST")
        assert "storeId is missing" in problem["detail"]
        assert "/state/instances" in problem["detail"]
