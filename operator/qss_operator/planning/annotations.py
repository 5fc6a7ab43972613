"""The annotations of a store: their names, their texts, and how a person sets them."""

import re
from collections.abc import Mapping
from typing import Any

from qss_core.model import Ordinal, PartitionId, StoreId, StoreName
from qss_core.spec.resource import StoreSpec
from qss_operator.planning.model import Observation, StoreResource, StoreStatus

ADOPT_VOLUMES_ANNOTATION = "queryablestate.dev/adopt-volumes"
ACCEPT_LOSS_ANNOTATION = "queryablestate.dev/accept-data-loss"
ACTIVES_ANNOTATION = "queryablestate.dev/actives"
# Another text makes the pods restart, one at a time.
RESTARTED_AT_ANNOTATION = "queryablestate.dev/restarted-at"
# The rules that a person sets aside, as `EnoughRoom`; the others cannot be set aside.
IGNORED_RULES_ANNOTATION = "queryablestate.dev/ignored-rules"
_ACTIVE = re.compile(r"\s*(0|[1-9][0-9]{0,3})=(0|[1-9][0-9]{0,3})\s*")


def annotated_resource(
    metadata: Mapping[str, Any], version: str, spec: StoreSpec, status: StoreStatus | None
) -> StoreResource:
    """The resource as the planner sees it, with the wishes in the annotations of its metadata."""
    annotations = metadata.get("annotations") or {}
    return StoreResource(
        name=StoreName(metadata["name"]),
        uid=metadata["uid"],
        generation=metadata["generation"],
        version=version,
        spec=spec,
        adopt_volumes=annotations.get(ADOPT_VOLUMES_ANNOTATION),
        accept_data_loss=annotations.get(ACCEPT_LOSS_ANNOTATION),
        actives=annotations.get(ACTIVES_ANNOTATION),
        restarted_at=annotations.get(RESTARTED_AT_ANNOTATION),
        ignored_rules=annotations.get(IGNORED_RULES_ANNOTATION),
        status=status,
    )


def decode_actives(text: str | None) -> dict[PartitionId, Ordinal] | None:
    """The pod that a person asks for, by partition; None for text in another form.

    The text is of the form `3=2,5=0`: partition 3 on pod 2, partition 5 on pod 0.
    """
    if not text:
        return {}
    parts = [_ACTIVE.fullmatch(part) for part in text.split(",")]
    if not all(parts):
        return None
    return {PartitionId(int(part[1])): Ordinal(int(part[2])) for part in parts if part is not None}


def encode_actives(asked: Mapping[PartitionId, Ordinal]) -> str:
    """The annotation's text, with an entry for each partition in their order."""
    return ",".join(f"{partition}={pod}" for partition, pod in sorted(asked.items()))


def how_to_annotate(observation: Observation, annotation: str, value: str) -> str:
    """The instruction for a person, without a full stop at its end."""
    option = observation.cluster.local_option
    if option is None:
        name = observation.resource.name
        return f"kubectl annotate qss {name} --overwrite {annotation}={value}"
    return (
        f'write {annotation}: "{value}" under metadata.annotations in the store\'s file, then run '
        f"{how_to_apply(option)}"
    )


def how_to_adopt(observation: Observation, identity: StoreId) -> str:
    """Tells how to take over volumes of another store, with the annotation's present value."""
    command = how_to_annotate(observation, ADOPT_VOLUMES_ANNOTATION, identity)
    given = observation.resource.adopt_volumes
    if given is None:
        return command
    return f"{command}. It says {given!r} now, which is the id of none of these volumes"


def how_to_apply(option: str) -> str:
    """The command that changes a running local store; `option` names the cluster's directory."""
    return f"`qss apply FILE{option}`"


def how_to_restart(option: str) -> str:
    """The commands that restart a local cluster with other files; `option` names its directory."""
    return f"`qss down{option}`, then `qss up FILE...{option}` with all files"
