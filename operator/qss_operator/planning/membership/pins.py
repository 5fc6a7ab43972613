"""Reads on which pods a person wants the actives of partitions. Pure.

The annotation `queryablestate.dev/actives` names partitions with a pod's ordinal, as `3=2,5=0`.
"""

from qss_core.model import Ordinal, PartitionId
from qss_operator.planning.annotations import ACTIVES_ANNOTATION, decode_actives
from qss_operator.planning.membership.replacement import replaced_pods
from qss_operator.planning.model import Observation


def pinned_actives(observation: Observation) -> dict[PartitionId, Ordinal]:
    """The pods by partition, without pods and partitions that the store lacks.

    Nor with pods that are replaced: other pods get copies of all partitions that those had.
    """
    spec, replaced = observation.resource.spec, replaced_pods(observation)
    return {
        partition: pod
        for partition, pod in (decode_actives(observation.resource.actives) or {}).items()
        if partition < spec.partitions and pod < spec.replicas and pod not in replaced
    }


def pins_message(observation: Observation) -> str | None:
    """The fault of the annotation, in words; None if it has none."""
    text, spec = observation.resource.actives or "", observation.resource.spec
    pins = decode_actives(text)
    if pins is None or (text and len(pins) != len(text.split(","))):
        return (
            f"the annotation {ACTIVES_ANNOTATION} says {text[:80]!r}: write PARTITION=POD with the "
            "pod's number, as 3=2,5=0, each partition once"
        )
    beyond = [f"{one}={pod}" for one, pod in pins.items() if one >= spec.partitions]
    if not beyond:
        return None
    return (
        f"the annotation {ACTIVES_ANNOTATION} says {', '.join(beyond)}, and the store has the "
        f"partitions 0 to {spec.partitions - 1}"
    )


def waiting_pins(observation: Observation) -> list[str]:
    """The entries of the annotation whose pods are not there or are replaced, as `3=2`."""
    spec, replaced = observation.resource.spec, replaced_pods(observation)
    pins = decode_actives(observation.resource.actives) or {}
    return [f"{one}={pod}" for one, pod in pins.items() if pod >= spec.replicas or pod in replaced]
