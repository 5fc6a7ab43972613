"""Replicas of a partition with other rows, and the passes that compare them."""

from collections.abc import Awaitable, Callable
from dataclasses import replace

from qss_store.replicas.replica import Replica
from qss_store.replicas.transfer.row_comparison import RowComparison
from qss_store.replicas.volume.scrubber import Scrubber
from qss_store.runtime.peer_client import Peers, PeerSession
from qss_testing.fakes.virtual_time import SetClock
from qss_testing.pods.stores import configuration
from qss_testing.pods.write_cluster import WriteCluster, Writer, replica_of, rows_of, write
from qss_testing.waiting import wait_until_async

KEYS = [f"k{number:05}".encode() for number in range(3000)]  # Several stretches of rows.
DAY_S = 24 * 3600.0


async def filled(cluster: WriteCluster, *pods: int) -> tuple[Writer, int]:
    """Writes rows, and waits until the pods show them; returns the writer and its epoch."""
    writer = cluster.writer(0)
    epoch = await writer.epoch()
    await write(writer, epoch, 0, {0: dict.fromkeys(KEYS, b"1")})
    await wait_until_async(lambda: all(len(rows_of(replica_of(cluster, pod))) for pod in pods))
    return writer, epoch


def spoil(
    replica: Replica, key: bytes, row: bytes | None = None, family: str | None = None
) -> bytes:
    """Changes a row behind the replica's back, or deletes it; returns the row of before."""
    family, batch = family or replica.views.families.name, replica.engine.batch()
    before = replica.engine.get(family, key) or b""
    if row is None:
        batch.delete(family, key)
    else:
        batch.put(family, key, row)
    replica.engine.write(batch)
    return before


async def compare(cluster: WriteCluster, pod: int = 0) -> None:
    """Compares all rows of the replica on a pod with those of the others, without rests."""
    async with PeerSession() as session:
        services = cluster.pods[pod].services
        settings = replace(services.settings, scrub_bytes_per_s=1 << 40)
        comparison = RowComparison(services.pod.registry, Peers(session), settings)
        await comparison.compare(replica_of(cluster, pod))


async def look(
    cluster: WriteCluster,
    pod: int,
    compare: Callable[[Replica], Awaitable[bool]] | None = None,
    rest_s: float = DAY_S,
) -> None:
    """The slow pass of a pod looks which replicas are due; its clock stands still."""
    services = cluster.pods[pod].services
    settings = replace(services.settings, scrub_bytes_per_s=1 << 40, scrub_rest_s=rest_s)
    registry, comparison = services.pod.registry, services.row_comparison
    rows = registry.replicas, registry.found_damage, compare or comparison.compare
    await Scrubber(*rows, settings, SetClock()).round()


class InterruptedPeers(Peers):
    """Other pods that something happens to before each message of one path."""

    def __init__(
        self, session: PeerSession, path: str, happens: Callable[[], Awaitable[None]]
    ) -> None:
        super().__init__(session)
        self._path = path
        self._happens = happens

    async def send(self, url: str, body: bytes, timeout_s: float) -> bytes:
        if url.endswith(self._path):
            await self._happens()
        return await super().send(url, body, timeout_s)


async def back_in_sync(cluster: WriteCluster, epoch: int) -> None:
    """A replica on pod 1 joins that on pod 0 in this epoch, and is in sync in the next one."""
    await cluster.assign([configuration(0, 0, epoch=epoch, learners=[1])])
    await cluster.until_led()
    active = replica_of(cluster, 0)
    await wait_until_async(lambda: 1 in active.followers.learners.caught_up())
    await cluster.assign([configuration(0, 0, epoch=epoch + 1, standbys=[1])])
    await cluster.until_led()


def told_epoch(cluster: WriteCluster, pod: int) -> int | None:
    """The epoch of the unlike rows that the pod reports; None where it reports none."""
    (report,) = cluster.pods[pod].pod.report().replicas
    return None if report.unlike is None else report.unlike.epoch


def damaged(cluster: WriteCluster) -> list[int]:
    """The pods whose replica counts as damaged."""
    return [pod for pod in cluster.pods if replica_of(cluster, pod).health.damage is not None]
