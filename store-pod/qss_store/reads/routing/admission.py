"""Decides whether a replica may answer a read, and from which state.

The order of the checks is part of the API: the partition exists, the pod has it, the role, the
state is open and a standby has caught up with it, the staleness, the position bound. The bound is
checked with `requireActive`, too (Kafka ignores it then), since a newly promoted active may not
have applied all of its log.
"""

from collections.abc import Callable
from typing import TypeVar

import msgspec

from qss_core.errors import (
    NotActiveError,
    NotPresentError,
    NotReadyError,
    NotUpToBoundError,
    TooStaleError,
)
from qss_core.model import Isolation, PartitionConfiguration, PartitionId, PodName, Role, Sequence
from qss_core.positions import UnmetComponent, unmet_components
from qss_core.queries.parameters import ReadOptions
from qss_core.queries.requests import PartitionAnswer
from qss_core.text import listed
from qss_store.reads.request import ReadRequest
from qss_store.replicas.pod import Pod
from qss_store.replicas.replica import Replica
from qss_store.storage.views.read_view import ReadView

_UNMET_SHOWN_MAX = 3
_ANY = Sequence(0)
Produced = TypeVar("Produced")


class Reading(msgspec.Struct, frozen=True):  # Each read makes one.
    """A replica that may answer, and one state of it."""

    partition: PartitionId
    pod: PodName
    role: Role
    configuration: PartitionConfiguration
    view: ReadView
    replica: Replica

    def answer(self) -> PartitionAnswer:
        """The members of an answer that identify its state."""
        view = self.view
        return PartitionAnswer(
            position=view.position.to_json(),
            served_by=self.pod,
            role=self.role,
            epoch=self.configuration.epoch,
            sequence=view.sequence,
            stream_time=view.stream_time,
        )


async def read_prepared(
    pod: Pod,
    partition: PartitionId,
    request: ReadRequest[object],
    produce: Callable[[Reading], Produced],
    since: Sequence = _ANY,
) -> tuple[Reading, Produced]:
    """As `read`; it places uncommitted rows first, if the read asks for them."""
    options = request.options
    if options.isolation is not Isolation.READ_COMMITTED:
        replica = pod.registry.replicas.get(partition)
        if replica is not None and _sees_uncommitted(replica, options):
            await replica.uncommitted.prepare(options.timeout_s)
    return read(pod, partition, request, produce, since)


def read(
    pod: Pod,
    partition: PartitionId,
    request: ReadRequest[object],
    produce: Callable[[Reading], Produced],
    since: Sequence = _ANY,
) -> tuple[Reading, Produced]:
    """Returns what `produce` makes of the local replica's state; all local reads pass here.

    The rows have the format that the request was planned for. The state is not older than the
    sequence `since`, from which an earlier page came. `produce` takes what it needs of
    `view.rows` before it returns: a commit closes the view. Raises NotReadyError for
    uncommitted rows that `read_prepared` has to place first.
    """
    replica = pod.registry.local(partition)
    options = request.options
    role = replica.role
    assert role is not None, "a local replica has a role"
    if role is not Role.ACTIVE:
        _check_role(replica, pod, options)
    elif options.require_active:
        replica.acting.check()
    view = _shown(replica)
    if options.max_staleness_s is not None:
        _check_staleness(replica, options.max_staleness_s)
    if options.bound.topics and (unmet := unmet_components(view.position, options.bound)):
        raise _behind(view, unmet)
    if view.sequence < since:
        raise NotUpToBoundError(
            f"the replica is at sequence {view.sequence}, older than the state {since} that the "
            "cursor's rows came from"
        )
    if _sees_uncommitted(replica, options):
        view = replica.uncommitted.view_of(view)
    if view.format is not request.codec.format:
        view = view.shown_in(request.codec.format)
    reading = Reading(partition, pod.name, role, replica.log.configuration, view, replica)
    produced = produce(reading)
    if options.require_active:
        replica.acting.check()  # The lease may have run out while the rows were read.
    return reading, produced


def _shown(replica: Replica) -> ReadView:
    """The state that readers see. Raises NotReadyError where it is missing or too old."""
    view, partition = replica.view, replica.partition
    if view is None:
        why = replica.failure.message if replica.failure else "it is being opened"
        raise NotReadyError(f"partition {partition} does not serve yet: {why}")
    if replica.lacks_rows:
        raise NotReadyError(
            f"the standby of partition {partition} has yet to apply entries that were acknowledged "
            "before it joined or started: try again, or ask the active"
        )
    return view


def _check_role(replica: Replica, pod: Pod, options: ReadOptions) -> None:
    """Raises for a replica whose role may not answer."""
    if replica.role is Role.LEARNER:
        raise _elsewhere(NotPresentError, pod, replica, "is still being copied to")
    if options.require_active:
        raise _elsewhere(NotActiveError, pod, replica, "is only a standby on")


def _sees_uncommitted(replica: Replica, options: ReadOptions) -> bool:
    isolation = options.isolation or replica.definition.isolation
    return isolation is Isolation.READ_UNCOMMITTED


def _elsewhere(
    kind: type[NotPresentError | NotActiveError], pod: Pod, replica: Replica, what: str
) -> NotPresentError | NotActiveError:
    active = pod.registry.address(replica.log.configuration.active).name
    return kind(
        f"partition {replica.partition} {what} pod {pod.name}: ask {active}",
        partition=replica.partition,
        active=active,
        epoch=replica.log.configuration.epoch,
    )


def _check_staleness(replica: Replica, max_staleness_s: float) -> None:
    if replica.role is Role.ACTIVE:
        replica.acting.check()  # One that was deposed does not know how old its state is.
    elif replica.following.stale_s() > max_staleness_s:
        raise TooStaleError(
            f"the standby of partition {replica.partition} was not level with its active within "
            f"the last {max_staleness_s:g} s",
            partition=replica.partition,
        )


def _behind(view: ReadView, unmet: list[UnmetComponent]) -> NotUpToBoundError:
    names = [
        f"{one.topic}-{one.partition} at {'nothing' if one.seen is None else one.seen}"
        f" of {one.offset}"
        for one in unmet
    ]
    return NotUpToBoundError(
        "the replica has not reached the position bound: " + listed(names, _UNMET_SHOWN_MAX),
        position=view.position.to_json(),
    )
