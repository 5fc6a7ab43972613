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
_NO_MOVES = "has no effect yet: replicas do not move between pods"


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
    usual = _without_moves(spec.rebalance)
    kept = msgspec.structs.replace(spec, rebalance=usual)
    return kept, lines


def _not_yet(spec: StoreSpec) -> Iterator[tuple[str, str]]:
    usual = _without_moves(spec.rebalance)
    yield from _other_than(spec.rebalance, usual, "spec.rebalance", _NO_MOVES)


def _without_moves(rebalance: RebalanceSpec) -> RebalanceSpec:
    """The block with the defaults of what only concerns moves between pods."""
    usual = RebalanceSpec()
    return msgspec.structs.replace(
        rebalance,
        acceptable_recovery_lag_bytes=usual.acceptable_recovery_lag_bytes,
        max_warmup_replicas=usual.max_warmup_replicas,
    )


def _not_locally(spec: StoreSpec) -> Iterator[tuple[str, str]]:
    if spec.replicas == 0:
        yield "spec.replicas", "0 (hibernation) is for Kubernetes. `qss down` stops the pods"
    if spec.rebalance.paused:
        yield "spec.rebalance.paused", "has no effect locally: `qss up` restarts every pod"
    if spec.access.authentication is not Authentication.NONE:
        yield (
            "spec.access.authentication",
            "A local store must say access: {authentication: None}. It listens on 127.0.0.1 only, "
            "and there is no Kubernetes to ask who a caller is",
        )
    default_access = AccessSpec(authentication=spec.access.authentication)
    yield from _other_than(spec.access, default_access, "spec.access", _KUBERNETES_ONLY)
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
