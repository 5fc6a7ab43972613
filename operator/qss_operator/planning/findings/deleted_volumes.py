"""The message on volumes that are deleted and are there until their pods end. Pure."""

from collections.abc import Iterator, Sequence

from qss_core.model import PartitionConfiguration
from qss_core.text import listed
from qss_operator.planning.membership.restarts import why_data_would_be_lost
from qss_operator.planning.model import Observation, PodState

VOLUME_DELETED = "VolumeDeleted"
_NAMED_MAX = 5


def deleted_volumes_message(
    observation: Observation, certain: Sequence[PartitionConfiguration] | None
) -> str | None:
    """The deleted volumes, with the operator's next step or the remedy; None without any.

    `certain` are the configurations that hold, and None while the assignment is unknown.
    """
    deleted = [pod for pod in observation.cluster.pods if pod.deleted_volume is not None]
    told = [
        *_of_pods_that_end(observation, [pod for pod in deleted if not pod.is_stuck], certain),
        *(
            f"{pod.deleted_volume} is deleted, and {pod.address.name}, which should have stopped "
            "long ago, gets a new volume when it has gone"
            for pod in deleted
            if pod.is_stuck
        ),
    ]
    return "; ".join(told) or None


def _of_pods_that_end(
    observation: Observation,
    ending: Sequence[PodState],
    certain: Sequence[PartitionConfiguration] | None,
) -> Iterator[str]:
    entries = None if certain is None else {entry.partition: entry for entry in certain}
    deleted = {pod: why_data_would_be_lost(observation, pod, entries) for pod in ending}
    if not deleted:
        return
    claims = listed([str(pod.deleted_volume) for pod in deleted], _NAMED_MAX)
    pods = listed([pod.address.name for pod in deleted], _NAMED_MAX)
    is_one = len(deleted) == 1
    said = (
        f"{claims} {'is' if is_one else 'are'} deleted, and the data goes when {pods} "
        f"stop{'s' if is_one else ''}"
    )
    if not (kept := {pod.address.name: why for pod, why in deleted.items() if why is not None}):
        yield (
            f"{said}: the other replicas take over, the operator restarts {pods} with a new "
            "volume, and copies the data to it"
        )
        return
    whys = "; ".join(dict.fromkeys(kept.values()))
    names = listed(list(kept), _NAMED_MAX)
    yield (
        f"{said}: the operator does not restart {names}, and lets no drain stop a pod: {whys}. "
        "It restarts a pod with a new volume once every partition of it has another sound replica "
        "in sync. Where that cannot be, read the data out now, into another store; what is to be "
        "lost goes by deleting those pods"
    )
