"""Decides whether one pod of a store may be evicted, as a drain of its node does. Pure."""

from qss_core.spec.resource import StoreSpec
from qss_operator.planning.findings.served import is_serving
from qss_operator.planning.model import StoreStatus


def may_evict(spec: StoreSpec, status: StoreStatus) -> bool:
    """Whether all partitions are served, and none would lose its last in-sync replica.

    With standbys, a partition of several replicas needs two in sync. Without, a partition is away
    while its pod starts elsewhere, whenever that pod is evicted; a move of it changes nothing.
    """
    return is_serving(status) and all(
        len(entry.in_sync) > 1 or len(entry.replicas) == 1 or spec.effective_standbys == 0
        for entry in status.assignment or ()
    )
