"""Writers may send each request to any pod, which passes it on to the coordinator once."""

from pathlib import Path

import pytest

from qss_testing.pods.stores import configuration
from qss_testing.pods.write_cluster import WriteCluster, write_cluster

ROWS = {b"k": b"v"}


def passed_on(cluster: WriteCluster, ordinal: int) -> int:
    """The number of writers' requests that a pod has answered."""
    lines = cluster.pods[ordinal].pod.metrics.render(lambda: None).decode().splitlines()
    counts = [
        line.rsplit(" ", 1)[1]
        for line in lines
        if line.startswith("qss_requests_total") and "/changelog/stores/{store}/writers" in line
    ]
    return int(sum(map(float, counts)))


async def test_a_writer_may_send_requests_to_any_pod(tmp_path: Path) -> None:
    async with write_cluster(tmp_path, pods=3, partitions=3) as cluster:
        coordinator, other = cluster.writer(0), cluster.writer(2)
        epoch = await other.epoch()
        assert (await other.renew(epoch)).json()["closesAfterS"] > 0
        staged = await other.stage(epoch, 0, f"{epoch}.t.0", {2: ROWS})
        before = passed_on(cluster, 0)
        committed = (await other.commit(epoch, 0, staged)).json()
        assert (committed["sequence"], committed["alreadyApplied"]) == (1, False)
        assert passed_on(cluster, 0) == before + 1
        assert (await other.abort(epoch, 0)).json() == {"decided": True}
        assert (await coordinator.commit(epoch, 0, staged)).json()["alreadyApplied"]
        assert passed_on(cluster, 1) == 0
        # The refusal of the coordinator comes back unchanged.
        (await other.commit(epoch, 9, {})).problem(409, "BATCH_GAP")
        assert cluster.rows(2) == ROWS


async def test_a_refusal_that_is_passed_back_says_when_to_retry(tmp_path: Path) -> None:
    async with write_cluster(tmp_path, pods=3, partitions=3) as cluster:
        epoch = await cluster.writer(0).epoch()
        await cluster.stop_pod(2)  # Its partition cannot be prepared.
        for ordinal in (0, 1):
            answer = await cluster.writer(ordinal).commit(epoch, 0, {})
            assert answer.problem(503, "UNREACHABLE")["retryAfterMs"]
            assert answer.headers["Retry-After"] == "1"


async def test_requests_to_a_stopped_coordinator_get_unreachable(tmp_path: Path) -> None:
    async with write_cluster(tmp_path) as cluster:
        await cluster.stop_pod(0)
        problem = (await cluster.writer(1).open()).problem(503, "UNREACHABLE")
        assert "words-0" in problem["detail"]


async def test_pods_that_disagree_on_the_coordinator_pass_a_request_on_once(
    tmp_path: Path,
) -> None:
    async with write_cluster(tmp_path, pods=2, partitions=2) as cluster:
        moved = [configuration(0, 1, epoch=2), configuration(1, 1, epoch=2)]
        cluster.configurations, before = moved, cluster.configurations
        await cluster.pods[0].pod.assign(cluster.assignment)
        cluster.configurations = before
        # For pod 0, pod 1 coordinates; pod 1 does not have that assignment yet.
        problem = (await cluster.writer(0).open()).problem(409, "NOT_ACTIVE")
        assert problem["retry"] == "refresh-routes"
        assert passed_on(cluster, 1) == 1
        assert passed_on(cluster, 0) == 1


@pytest.mark.parametrize("path", ["", "/1/renew", "/1/batches/0/commit", "/1/batches/0/abort"])
async def test_a_pod_that_opens_its_replicas_answers_not_ready(path: str, tmp_path: Path) -> None:
    async with write_cluster(tmp_path) as cluster:
        await cluster.pods[0].pod.close()  # As before they are open; the pod has its assignment.
        answer = await cluster.writer(0).api.post(f"/changelog/stores/words/writers/job{path}", {})
        answer.problem(503, "NOT_READY")
