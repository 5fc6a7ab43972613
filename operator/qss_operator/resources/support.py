"""Finds values of a valid resource that are not supported yet, or not on one machine.

Such a value is refused with its field, never ignored: its author relies on it.
"""

from collections.abc import Iterator
from typing import Any

import msgspec

from qss_core.formats.values import lost_between
from qss_core.spec.pod import PodSpec
from qss_core.spec.resource import (
    AccessSpec,
    Authentication,
    RebalanceSpec,
    StoreSpec,
    TopologySpec,
    WhenDeleted,
)
from qss_operator.errors import UnsupportedError
from qss_operator.planning.formats import lossy_message

_KUBERNETES_ONLY = "is only for Kubernetes: a local pod is a process of this machine"
_IN_SYNC_ONLY = "has no effect yet: only a replica that is in sync becomes the active"


def refuse_unsupported_locally(spec: StoreSpec, old: StoreSpec | None = None) -> None:
    """Raise UnsupportedError for fields that local clusters lack; `old` is the stored spec."""
    lines = [
        f"{field}: {reason}"
        for field, reason in (*_not_yet(spec), *_not_locally(spec), *_changes(spec, old))
    ]
    if lines:
        raise UnsupportedError("\n".join(lines), problems=lines)


def supported_spec(spec: StoreSpec) -> tuple[StoreSpec, list[str]]:
    """The supported part of a spec, and a line for each unsupported field.

    An existing store keeps its supported values, so an edit with an unsupported value has no
    effect; a new store is not made while there are lines.
    """
    lines = [f"{field}: {reason}" for field, reason in _not_yet(spec)]
    kept = msgspec.structs.replace(spec, rebalance=_supported(spec.rebalance))
    return kept, lines


def _not_yet(spec: StoreSpec) -> Iterator[tuple[str, str]]:
    usual = _supported(spec.rebalance)
    yield from _other_than(spec.rebalance, usual, "spec.rebalance", _IN_SYNC_ONLY)


def _supported(rebalance: RebalanceSpec) -> RebalanceSpec:
    """The block with the default of the member that has no effect yet."""
    usual = RebalanceSpec().acceptable_recovery_lag_bytes
    return msgspec.structs.replace(rebalance, acceptable_recovery_lag_bytes=usual)


def _not_locally(spec: StoreSpec) -> Iterator[tuple[str, str]]:
    if spec.replicas == 0:
        yield "spec.replicas", "0 (hibernation) is for Kubernetes. `qss down` stops the pods"
    if spec.access.authentication is not Authentication.NONE:
        yield (
            "spec.access.authentication",
            "A local store must say access: {authentication: None}. It listens on 127.0.0.1 only, "
            "and there is no Kubernetes to ask who a caller is",
        )
    known = msgspec.structs.replace(
        AccessSpec(),
        authentication=spec.access.authentication,
        console=spec.access.console,
        allowed_origins=spec.access.allowed_origins,
    )
    yield from _other_than(spec.access, known, "spec.access", _KUBERNETES_ONLY)
    yield from _other_than(spec.pod, PodSpec(), "spec.pod", _KUBERNETES_ONLY)
    yield from _other_than(spec.topology, TopologySpec(), "spec.topology", _KUBERNETES_ONLY)
    if spec.storage.storage_class_name is not None:
        yield "spec.storage.storageClassName", _KUBERNETES_ONLY
    if spec.storage.when_deleted is not WhenDeleted.RETAIN:
        yield "spec.storage.whenDeleted", "a local store's data is deleted by hand only. Use Retain"


def _changes(spec: StoreSpec, old: StoreSpec | None) -> Iterator[tuple[str, str]]:
    if old is None:
        return
    lost = lost_between(old.format, spec.format)
    if lost and not spec.store.allow_lossy_migration:
        yield "spec.store.format", lossy_message(old.format, spec.format, lost)


def _other_than(
    block: msgspec.Struct, default: msgspec.Struct, path: str, reason: str
) -> Iterator[tuple[str, str]]:
    """The members of a block that differ from the default."""
    given: dict[str, Any] = msgspec.to_builtins(block)
    usual: dict[str, Any] = msgspec.to_builtins(default)
    for name, value in given.items():
        if value != usual[name]:
            yield f"{path}.{name}", reason
