"""A reader: asks one partition after the other, and never sees a state go back."""

import asyncio
import json
from dataclasses import dataclass
from random import Random  # noqa: TID251 seeded by the story.

from qss_core.errors import NotActiveError, NotPresentError, StoreError, TooStaleError
from qss_simulation.history import PARTITIONS, Histories, HistoryError
from qss_simulation.parts.network import Network
from qss_simulation.parts.trace import Trace

_OF_ACTIVE = 0.3  # The share of reads that ask for the active.
_FRESH = 0.3  # The share of other reads that bound how stale the answer may be.
_STALE_S_MAX = 2.0
CLOCKS = 1.06  # A second of the slowest clock is shorter than this.


@dataclass(frozen=True, slots=True)
class PartitionRows:
    """The result of one read of a partition: values, and the times of their rows."""

    store_id: str
    sequence: int
    rows: dict[str, str]
    times_ms: dict[str, int]


async def read_partition(
    network: Network,
    partition: int,
    pod: int,
    timeout_s: float,
    since: PartitionRows | None = None,
    *,
    of_active: bool = False,
    stale_s: float | None = None,
) -> PartitionRows:
    """The rows of a partition on a pod, not older than `since`. Raises StoreError."""
    bound = "" if since is None else f"storeId={since.store_id}&since={since.sequence}"
    fresh = "" if stale_s is None else f"&stale={stale_s}"
    query = f"{bound}{'&active=1' if of_active else ''}{fresh}"
    url = f"http://pod-{pod}/read/{partition}?{query}"
    found = json.loads(await network.exchange(url, b"", timeout_s))
    rows = found["rows"]
    return PartitionRows(
        found["storeId"],
        found["sequence"],
        {key: value for key, value, _ in rows},
        {key: time_ms for key, _, time_ms in rows},
    )


async def run_reader(
    network: Network, pods: int, random: Random, histories: Histories, trace: Trace
) -> None:
    """Reads any replica, by the bound of what it saw, until the node dies. Raises HistoryError.

    Reads of actives also see everything that was acknowledged before they began; reads with a bound
    on their staleness see what was acknowledged so long before.
    """
    seen: list[PartitionRows | None] = [None] * PARTITIONS
    while True:
        partition, of_active = random.randrange(PARTITIONS), random.random() < _OF_ACTIVE
        stale_s = _STALE_S_MAX if not of_active and random.random() < _FRESH else None
        before = seen[partition]
        acknowledged = histories.acknowledged(network.now_s - (stale_s or 0.0) * CLOCKS)
        for pod in random.sample(range(pods), pods):
            try:
                found = await read_partition(
                    network, partition, pod, 1.0, before, of_active=of_active, stale_s=stale_s
                )
            except StoreError as error:
                trace.note("read-failed", error.code)
                if isinstance(error, NotPresentError | NotActiveError | TooStaleError):
                    continue
                break
            histories.of(found.store_id).check_rows(partition, found.rows)
            shown = (histories.age(found.store_id), found.sequence)
            if before is not None and shown < (histories.age(before.store_id), before.sequence):
                raise HistoryError(
                    f"partition {partition} went back from {before.sequence} to {shown}"
                )
            is_bound = of_active or stale_s is not None
            if is_bound and found.sequence < acknowledged.get(found.store_id, 0):
                raise HistoryError(
                    f"a read of {'the active' if of_active else 'a fresh replica'} of partition "
                    f"{partition} is at {found.sequence}, and {acknowledged[found.store_id]} was "
                    "acknowledged"
                )
            seen[partition] = found
            trace.note("read", f"{partition} {found.sequence} {len(found.rows)}")
            break
        await asyncio.sleep(random.expovariate(1 / 0.2))
