"""A store with standbys that a client writes and reads while a test disturbs it."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from e2e.clients import PodClient
from e2e.environment import Tell
from e2e.kubectl import Cluster
from e2e.stores import is_redundant, pods_of, small_store

ROWS = 300
STORE = "words"
LEASE_S = 5.0
Used = Callable[..., AbstractContextManager[None]]  # As `used_by` from `most_s` on.


def make_store(here: Cluster, client: PodClient, **spec: Any) -> None:
    """Makes a store of four pods and twelve partitions, one standby each, with 300 rows.

    Keyword arguments are members of its spec.
    """
    here.apply(small_store(STORE, replicas=4, partitions=12, standbys=1, **spec))
    here.until(f"qss/{STORE}", is_redundant)
    client.write(STORE, ROWS, 1)


@contextmanager
def used_by(
    here: Cluster, client: PodClient, tell: Tell, most_s: float, one_try_fails: float = 1.0
) -> Iterator[None]:
    """Writes and reads while the block runs, and until the store is redundant again.

    No request may fail or take `most_s` seconds, no answer may go back, and all rows are compared.
    A failure tells where the pods and the actives were before the block, and what the client said.
    Of the questions to the Service that are asked once, a share of `one_try_fails` may fail.
    """
    before = placement(here)
    with client.keeping(STORE) as story:
        yield
        here.until(f"qss/{STORE}", is_redundant)
    told: dict[str, Any] = story.told()
    tell(
        f"{told['writes']} writes and {told['reads']} reads, the slowest {told['slowest_s']} s "
        f"({told['slowest']}); "
        f"{told['failed']} of {told['tries']} failed with one try {told['reasons']}"
    )
    met = "\n".join((str(told), "before:", *before, "after:", *placement(here), *story.warnings))
    assert (told["wrong"], told["failures"]) == ([], []), met
    assert told["slowest_s"] < most_s, met
    assert told["failed"] <= one_try_fails * told["tries"], met
    assert has_its_rows(client)


def placement(here: Cluster) -> list[str]:
    """A line for each pod, with its node, and one for each partition, with its replicas."""
    pods = (
        f"{one['metadata']['name']} on {one['spec'].get('nodeName', 'no node')}"
        for one in pods_of(here, STORE)
    )
    assignment = here.get("qss", STORE)["status"]["assignment"]
    return [
        *pods,
        *(
            f"partition {number}: pod {one['active']} of {one['replicas']}, epoch {one['epoch']}"
            for number, one in enumerate(assignment)
        ),
    ]


def has_its_rows(client: PodClient) -> bool:
    """Whether the store has the rows that were written before any fault."""
    rows = {key: value for key, value in client.read(STORE).items() if key.startswith("key-")}
    return rows == {f"key-{one}": 1 for one in range(ROWS)}
