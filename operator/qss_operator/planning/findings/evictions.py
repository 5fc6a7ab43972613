"""Decides whether one pod of a store may be evicted, as a drain of its node does. Pure."""

from qss_operator.planning.model import StoreStatus
from qss_operator.planning.status import is_serving


def may_evict(status: StoreStatus) -> bool:
    """Whether all partitions are served, and none would lose its last in-sync replica.

    A partition of several replicas needs two in sync. One that has a single replica is away while
    its pod starts elsewhere, whenever that pod is evicted.
    """
    return is_serving(status) and all(
        len(entry.in_sync) > 1 or len(entry.replicas) == 1 for entry in status.assignment or ()
    )
