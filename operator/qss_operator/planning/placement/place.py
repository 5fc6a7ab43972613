"""Places replicas on pods: balanced, sticky, spread over zones and nodes, deterministic."""

from collections.abc import Iterable, Sequence

from qss_core.model import Epoch, PartitionConfiguration, PartitionId
from qss_operator.planning.placement.actives import choose_actives
from qss_operator.planning.placement.balance import balance
from qss_operator.planning.placement.draft import Draft
from qss_operator.planning.placement.sites import Placement, Site
from qss_operator.planning.placement.spread import spread


def place(
    partitions: int, sites: Sequence[Site], standbys: int, previous: Sequence[Placement] = ()
) -> tuple[Placement, ...]:
    """A placement of every partition.

    The replicas of a partition are in different zones, and the numbers of replicas differ by at
    most one between pods. Where both cannot be, pods of small zones hold more than the others, up
    to the limit of `shares`; beyond it replicas share a zone. Closed pods get a replica only where
    no other pod can take it. Actives are as even as the replicas permit. Replicas of `previous`
    stay where balance and zones permit it. Zones come before nodes. A replica that has data never
    moves because of nodes: a pod may run on another one tomorrow.
    """
    assert sites, "a pod has to hold the partitions"
    copies = 1 + min(standbys, len(sites) - 1)
    draft = Draft(partitions, sites, previous, copies)
    draft.keep(copies)
    draft.fill(copies)
    balance(draft)
    spread(draft)
    before = {entry.partition: entry.active for entry in previous}
    actives = choose_actives(draft.holders, [site.ordinal for site in sites], before)
    return tuple(
        Placement(
            partition=PartitionId(number),
            active=actives[number],
            replicas=tuple(sorted(pods, key=lambda pod: (pod != actives[number], pod))),
        )
        for number, pods in enumerate(draft.holders)
    )


def first_configurations(placements: Iterable[Placement]) -> tuple[PartitionConfiguration, ...]:
    """The configurations of a new store: with no data, every replica is in sync.

    The active is the last one: where a partition has more replicas than it should, the first ones
    go.
    """
    ordered = {
        entry.partition: tuple(sorted(entry.replicas, key=lambda pod: pod == entry.active))
        for entry in placements
    }
    return tuple(
        PartitionConfiguration(
            partition=entry.partition,
            epoch=Epoch(1),
            active=entry.active,
            in_sync=ordered[entry.partition],
            replicas=ordered[entry.partition],
        )
        for entry in placements
    )
