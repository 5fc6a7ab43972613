"""The status of a resource as a document: each partition with the role of each of its replicas.

The planner knows a partition by `active`, `inSync` and `replicas`. A person reads roles, so the
document repeats the same as `standbys` and `learners`, for `kubectl get -o yaml` and jsonpath. A
role without replicas is absent, which keeps 512 partitions with three replicas below 64 KiB.
"""

from typing import Any

import msgspec

from qss_core.model import PartitionConfiguration, Role
from qss_operator.planning.model import StoreStatus

_DERIVED = {Role.STANDBY: "standbys", Role.LEARNER: "learners"}


def encode_status(status: StoreStatus) -> dict[str, Any]:
    """The status in the CRD's shape, as values of JSON."""
    document: dict[str, Any] = msgspec.to_builtins(status)
    if status.assignment is not None:
        document["assignment"] = [_with_roles(entry) for entry in status.assignment]
    return document


def decode_status(document: Any) -> StoreStatus:
    """The status of a document; raises msgspec.ValidationError for another form of it."""
    return msgspec.convert(without_roles(document), StoreStatus)


def without_roles(document: Any) -> Any:
    """The document without its roles, which follow from the rest of the assignment."""
    if not isinstance(document, dict) or not isinstance(document.get("assignment"), list):
        return document
    entries = [_without_roles(entry) for entry in document["assignment"]]
    return document | {"assignment": entries}


def _with_roles(entry: PartitionConfiguration) -> dict[str, Any]:
    document: dict[str, Any] = msgspec.to_builtins(entry)
    for role, member in _DERIVED.items():
        pods = [pod for pod in entry.replicas if entry.role_of(pod) is role]
        if pods:
            document[member] = pods
    return document


def _without_roles(entry: Any) -> Any:
    if not isinstance(entry, dict):
        return entry
    return {name: value for name, value in entry.items() if name not in _DERIVED.values()}
