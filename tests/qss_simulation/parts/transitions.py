"""Names the changes of configurations that an operator publishes, for the counters of a run."""

from collections.abc import Iterator

from qss_core.model import PartitionConfiguration
from qss_operator.planning.model import StoreResource


def transitions(before: StoreResource, after: StoreResource) -> Iterator[tuple[str, str]]:
    """The changes between two versions of the resource: a name, and the partition in words."""
    held = {one.partition: one for one in _assignment(before)}
    for entry in _assignment(after):
        if before.uid == after.uid and held.get(entry.partition) != entry:
            yield _name(held.get(entry.partition), entry), _told(entry)


def _assignment(resource: StoreResource) -> tuple[PartitionConfiguration, ...]:
    return (resource.status.assignment if resource.status else None) or ()


def _name(before: PartitionConfiguration | None, after: PartitionConfiguration) -> str:
    if before is None:
        return "to-made"
    if after.epoch <= before.epoch:
        return "to-older-epoch"
    if after.active != before.active:
        return "to-handoff" if before.active in after.in_sync else "to-failover"
    added, removed = (
        set(after.replicas) - set(before.replicas),
        set(before.replicas) - set(after.replicas),
    )
    if added or removed:
        return "to-learner" if added else "to-removed"
    joined, left = (
        set(after.in_sync) - set(before.in_sync),
        set(before.in_sync) - set(after.in_sync),
    )
    if joined or left:
        return "to-joined" if joined else "to-left-sync"
    return "to-next-epoch"


def _told(entry: PartitionConfiguration) -> str:
    sync = ",".join(map(str, entry.in_sync))
    replicas = ",".join(map(str, entry.replicas))
    return f"{entry.partition}@{entry.epoch} active {entry.active}, in sync {sync} of {replicas}"
