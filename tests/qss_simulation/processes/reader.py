"""A reader: asks one partition after the other, and never sees a state go back."""

import asyncio
import json
from dataclasses import dataclass
from random import Random  # noqa: TID251 seeded by the story.

from qss_core.errors import StoreError
from qss_simulation.history import PARTITIONS, Histories, HistoryError
from qss_simulation.parts.network import Network
from qss_simulation.parts.trace import Trace


@dataclass(frozen=True, slots=True)
class PartitionRows:
    """What one read of a partition showed: values, and the times of their rows."""

    store_id: str
    sequence: int
    rows: dict[str, str]
    times_ms: dict[str, int]


async def read_partition(
    network: Network, partition: int, pods: int, timeout_s: float
) -> PartitionRows:
    """The rows of a partition, from its active. Raises StoreError."""
    url = f"http://pod-{partition % pods}/read/{partition}"
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
    """Reads until the node dies. Raises HistoryError."""
    seen = [(0, 0)] * PARTITIONS  # Age of the store, sequence.
    while True:
        partition = random.randrange(PARTITIONS)
        try:
            found = await read_partition(network, partition, pods, 1.0)
        except StoreError as error:
            trace.note("read-failed", error.code)
        else:
            histories.of(found.store_id).check_rows(partition, found.rows)
            shown = (histories.age(found.store_id), found.sequence)
            if shown < seen[partition]:
                raise HistoryError(
                    f"partition {partition} went back from {seen[partition]} to {shown}"
                )
            seen[partition] = shown
            trace.note("read", f"{partition} {found.sequence} {len(found.rows)}")
        await asyncio.sleep(random.expovariate(1 / 0.2))
