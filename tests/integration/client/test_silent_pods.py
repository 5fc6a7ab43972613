"""Commands and clients that wait for a silent pod name the pod."""

import re
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from qss_client import ReadOptions, RetryLimits
from qss_core.errors import UnreachableError
from qss_core.partitioning import partition_of
from qss_testing.clients.clients import AnyClient
from qss_testing.clients.qss_command import Qss
from qss_testing.pods.pod_process import PodCluster
from qss_testing.writers.writer import write_values

pytestmark = pytest.mark.long

KEYS = [f"k{number}" for number in range(8)]
PARTITIONS = 4
THEIRS = next(key for key in KEYS if partition_of(key.encode(), PARTITIONS) == 1)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PodCluster]:
    """Two pods; the second one is stopped: connections to it open, and no answer comes."""
    with PodCluster(tmp_path_factory.mktemp("pods"), pods=2, partitions=PARTITIONS) as cluster:
        write_values(cluster.url, cluster.store, dict.fromkeys(KEYS, 1))
        process = cluster.pods[1].process
        assert process is not None
        process.send_signal(signal.SIGSTOP)
        yield cluster
        process.send_signal(signal.SIGCONT)


def test_commands_name_after_2_s_the_pod_that_they_wait_for(
    cluster: PodCluster, tmp_path: Path
) -> None:
    both, frozen = cluster.pods[0].query, cluster.pods[1].query
    asked = [
        (("get", cluster.store, THEIRS, "--url", both), frozen),
        (("count", cluster.store, "--exact", "--url", both), None),
        (("scan", cluster.store, "--url", both), None),
        (
            ("get", cluster.store, THEIRS, "--url", frozen),
            frozen,
        ),  # The first request already waits.
        (("writers", cluster.store, "--url", frozen), frozen),
    ]
    with ThreadPoolExecutor(len(asked)) as threads:
        done = list(threads.map(lambda one: Qss(tmp_path).run(*one[0], "--timeout", "3"), asked))
    for (command, whom), finished in zip(asked, done, strict=True):
        # The pod that works answers that the other one did not.
        assert finished.code == (1 if command[0] in ("count", "scan") else 4), (
            command,
            finished.err,
        )
        waits, *_, error = finished.err.splitlines()
        expected = rf"no answer for [23] s: waiting for {whom or 'http://.*'} for up to \d+ s more"
        assert re.fullmatch(expected, waits), (command, finished.err)
        assert error.startswith("error: "), (command, finished.err)
    assert done[0].err.splitlines()[-1] == (
        f"error: UNREACHABLE: partition 1: {frozen}: no answer within 5 s"
    )


@pytest.mark.parametrize("kind", ["sync", "async"])
async def test_a_client_warns_while_a_request_hangs(
    cluster: PodCluster, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    limits = RetryLimits(deadline_s=0.5, tell_after_s=0.5)
    async with AsyncExitStack() as stack:
        client = AnyClient(kind, cluster.pods[0].query, cluster.store, limits=limits)
        stack.push_async_callback(client.close)
        caplog.clear()
        with pytest.raises(UnreachableError, match=r"^UNREACHABLE: partition 1: http://"):
            await client.get(THEIRS, ReadOptions(timeout_s=0.5))
    told = rf"waiting for {cluster.pods[1].query} (for up to [12] s more|now)"
    said = [record.getMessage() for record in caplog.records]
    assert [one for one in said if re.search(told, one)], said
