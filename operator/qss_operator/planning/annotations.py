"""Tells a person how to set an annotation of a store, on Kubernetes or on a local cluster."""

from qss_core.model import StoreId
from qss_operator.planning.model import Observation

ACTIVES_ANNOTATION = "queryablestate.dev/actives"
ADOPT_VOLUMES_ANNOTATION = "queryablestate.dev/adopt-volumes"


def how_to_annotate(observation: Observation, annotation: str, value: str) -> str:
    """The instruction for a person, without a full stop at its end."""
    option = observation.cluster.local_option
    if option is None:
        name = observation.resource.name
        return f"kubectl annotate qss {name} --overwrite {annotation}={value}"
    return (
        f'write {annotation}: "{value}" under metadata.annotations in the store\'s file, then run '
        f"{how_to_restart(option)}"
    )


def how_to_adopt(observation: Observation, identity: StoreId) -> str:
    """How a person takes over volumes of another store, and the annotation's present value."""
    command = how_to_annotate(observation, ADOPT_VOLUMES_ANNOTATION, identity)
    given = observation.resource.adopt_volumes
    if given is None:
        return command
    return f"{command}. It says {given!r} now, which is the id of none of these volumes"


def how_to_restart(option: str) -> str:
    """How a person restarts the local cluster with changed files; `option` names its directory."""
    return f"`qss down{option}`, then `qss up FILE...{option}` with all files"
