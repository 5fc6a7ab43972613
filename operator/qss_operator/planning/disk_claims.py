"""Finds the right configuration of each partition among the configurations on pods' volumes. Pure.

The configuration of an epoch is decided once, and a pod's durable copy of it counts. If two pods
hold different configurations of one epoch, a person has edited the status between. Such a partition
is unclear: until a person has decided, each pod gets only the configuration that it holds.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from msgspec.structs import replace

from qss_core.model import Epoch, Ordinal, PartitionConfiguration, PartitionId, StoreId
from qss_core.wire.replica_reports import ReplicasReport


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """The configuration that one pod holds of a partition.

    `is_empty`: the replica has no entries. `has_applied`: it has applied an entry, so every in-sync
    replica had synced that entry. Not `is_open`: the database does not open, and nobody knows its
    entries.
    """

    pod: Ordinal
    configuration: PartitionConfiguration
    is_empty: bool
    has_applied: bool = False
    is_open: bool = True


Claims = Mapping[PartitionId, tuple[Claim, ...]]


def claims_of(reports: Iterable[ReplicasReport], store_id: StoreId) -> Claims:
    """The claims of the pods of a store, by partition."""
    claims: dict[PartitionId, tuple[Claim, ...]] = {}
    for report in reports:
        if report.store_id != store_id:
            continue
        for claim in _claims_in(report):
            number = claim.configuration.partition
            claims[number] = (*claims.get(number, ()), claim)
    return claims


def _claims_in(report: ReplicasReport) -> Iterator[Claim]:
    for replica in report.replicas:
        yield Claim(
            pod=report.ordinal,
            configuration=replica.configuration,
            is_empty=replica.end_offset == 0 and replica.sequence == 0,
            has_applied=replica.applied_offset > 0,
        )
    for lost in report.lost:
        if lost.configuration is not None:
            yield Claim(
                pod=report.ordinal,
                configuration=lost.configuration,
                is_empty=False,
                is_open=False,
            )


def decided(claims: tuple[Claim, ...]) -> PartitionConfiguration | None:
    """The configuration that holds by these claims; None where it cannot be known.

    Of different configurations of one epoch, the one of the pods with entries holds, if they agree
    and its active is among them: an empty replica has acknowledged nothing. It gets the next epoch,
    so that the other pods accept it.
    """
    epoch = max(claim.configuration.epoch for claim in claims)
    highest = [claim for claim in claims if claim.configuration.epoch == epoch]
    first = highest[0].configuration
    if all(claim.configuration == first for claim in highest):
        return first
    written = [claim for claim in claims if not claim.is_empty]
    if not written:
        return None
    winner = written[0].configuration
    is_alone = all(claim.configuration == winner for claim in written)
    is_led = any(claim.pod == winner.active for claim in written)
    if not (is_alone and is_led and winner.epoch == epoch):
        return None
    return replace(winner, epoch=Epoch(epoch + 1))


def overrules(held: PartitionConfiguration, published: PartitionConfiguration) -> bool:
    """Whether a configuration on a volume shows that the published one does not hold."""
    return held.epoch >= published.epoch and held != published


def stranded(
    entry: PartitionConfiguration, claims: tuple[Claim, ...], heard: frozenset[Ordinal]
) -> tuple[Ordinal, ...]:
    """Pods outside of the in-sync set with data that no member of the set has.

    If the pods got this configuration, an empty partition would take the place of the data. While a
    member has not answered, only the pods count that the configuration would take the role from.
    A learner of this very configuration is not stranded where a member has it, too. A member's
    replica that cannot be opened is lost, and a person may accept that. A member without entries
    has acknowledged none, unless the learner has applied some: then the member's volume is an
    older one, and the learner is stranded. So is a pod without a role: it may have all rows, and
    would delete them after the acceptance.
    """
    written = {claim.pod: claim for claim in claims if claim.is_open and not claim.is_empty}
    if not written.keys().isdisjoint(entry.in_sync):
        return ()
    if heard.issuperset(entry.in_sync):
        members = [one for one in claims if one.pod in entry.in_sync and _has(one, entry)]
        # Without entries, by the check above.
        is_any_open = any(one.is_open and one.pod in entry.in_sync for one in claims)
        known = {
            pod
            for pod, own in written.items()
            if own.configuration == entry and entry.role_of(pod) is not None
            if members and not (own.has_applied and is_any_open)
        }
        return tuple(sorted(written.keys() - known))
    return tuple(
        sorted(
            pod
            for pod, own in written.items()
            if own.configuration != entry and entry.role_of(pod) is None
        )
    )


def _has(claim: Claim, entry: PartitionConfiguration) -> bool:
    """Whether a pod has this configuration.

    Where its replica cannot be opened, it may have ended before it was told: an older one, in which
    it is in sync, counts, too.
    """
    held = claim.configuration
    is_older = held.epoch < entry.epoch and claim.pod in held.in_sync
    return held == entry or (is_older and not claim.is_open)


def told_of_unclear(
    pod: Ordinal,
    claims: tuple[Claim, ...],
    published: PartitionConfiguration,
    pods: frozenset[Ordinal],
) -> PartitionConfiguration | None:
    """A configuration that changes nothing of an unclear partition on this pod, or None.

    A pod that holds the partition gets its own configuration. Another pod gets a configuration
    without itself, as a hint for callers, preferably from a pod with entries.
    """
    own = [claim.configuration for claim in claims if claim.pod == pod]
    ranked = sorted(claims, key=lambda claim: (claim.is_empty, -claim.configuration.epoch))
    hints = [*(claim.configuration for claim in ranked), published]
    fitting = own or [entry for entry in hints if entry.role_of(pod) is None]
    return next((entry for entry in fitting if pods.issuperset(entry.replicas)), None)
