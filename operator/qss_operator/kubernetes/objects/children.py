"""Makes the children of a store as they should be. Pure."""

from typing import Any

import msgspec
from msgspec.structs import replace

from qss_core.quantities import parse_quantity_bytes
from qss_core.spec.resource import AccessSpec, Peers, StoreSpec
from qss_operator.kubernetes.access.audiences import PodAudiences
from qss_operator.kubernetes.api.kinds import (
    NETWORK_POLICIES,
    POD_DISRUPTION_BUDGETS,
    SERVICE_ACCOUNTS,
    SERVICES,
    STORES,
    Kind,
)
from qss_operator.kubernetes.names import (
    CHANGELOG_PORT,
    GROUP,
    OPS_PORT,
    QUERY_PORT,
    STORE_LABEL,
    VOLUME,
    WRITER_LABEL,
    StoreNames,
)
from qss_operator.kubernetes.objects.pod_template import PodDefaults, pod_template
from qss_operator.planning.annotations import RESTARTED_AT_ANNOTATION
from qss_operator.planning.model import StoreResource
from qss_operator.resources.crd import canonical

Object = dict[str, Any]
Child = tuple[Kind, Object]

OPERATOR_LABELS = {"app.kubernetes.io/name": "queryable-state-operator"}


def owner_of(store: Object) -> Object:
    """The reference by which children are deleted with their store."""
    metadata = store["metadata"]
    return {
        "apiVersion": STORES.api_version,
        "kind": STORES.kind,
        "name": metadata["name"],
        "uid": metadata["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def beside_pods(
    names: StoreNames,
    owner: Object,
    access: AccessSpec,
    defaults: PodDefaults,
    *,
    may_evict_one: bool,
) -> list[Child]:
    """All children but the StatefulSet; they come first, as pods need them."""
    return [
        (SERVICE_ACCOUNTS, _child(names, owner, names.service_account, {})),
        (SERVICES, _pods_service(names, owner)),
        (SERVICES, _query_service(names, owner, access)),
        (NETWORK_POLICIES, _network_policy(names, owner, access, defaults)),
        (POD_DISRUPTION_BUDGETS, _disruption_budget(names, owner, may_evict_one=may_evict_one)),
    ]


def stateful_set(
    names: StoreNames,
    owner: Object,
    spec: StoreSpec,
    defaults: PodDefaults,
    replicas: int,
    account_uid: str = "",
    audiences: PodAudiences | None = None,
) -> Object:
    """The StatefulSet. `OnDelete`: the operator restarts pods, one at a time."""
    claim: Object = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": storage_text(spec)}},
    }
    if spec.storage.storage_class_name is not None:
        claim["storageClassName"] = spec.storage.storage_class_name
    return _child(
        names,
        owner,
        names.store,
        {
            "spec": {
                "serviceName": names.pods_service,
                "replicas": replicas,
                "podManagementPolicy": "Parallel",
                "updateStrategy": {"type": "OnDelete"},
                "persistentVolumeClaimRetentionPolicy": {
                    "whenDeleted": "Retain",
                    "whenScaled": "Retain",
                },
                "selector": {"matchLabels": {STORE_LABEL: names.store}},
                "template": pod_template(
                    names, spec, defaults, account_uid, audiences, owner["uid"]
                ),
                "volumeClaimTemplates": [
                    {
                        "apiVersion": "v1",
                        "kind": "PersistentVolumeClaim",
                        "metadata": {"name": VOLUME, "labels": {STORE_LABEL: names.store}},
                        "spec": claim,
                    }
                ],
            }
        },
    )


def with_restart(resource: StoreResource) -> StoreSpec:
    """The spec whose pods have the annotation by which a person restarts the store."""
    pod = resource.spec.pod
    if resource.restarted_at is None:
        return resource.spec
    annotations = {**pod.annotations, RESTARTED_AT_ANNOTATION: resource.restarted_at}
    return replace(resource.spec, pod=replace(pod, annotations=annotations))


def storage_text(spec: StoreSpec) -> str:
    """The size of a volume, as Kubernetes reads it."""
    size = spec.storage.size
    assert parse_quantity_bytes(size) > 0, "a size was validated"
    return str(size)


def _child(names: StoreNames, owner: Object, name: str, rest: Object) -> Object:
    metadata = {
        "name": name,
        "namespace": names.namespace,
        "labels": names.labels(),
        "ownerReferences": [owner],
    }
    return {"metadata": metadata, **rest}


def _ports(*chosen: tuple[str, int]) -> list[Object]:
    return [
        {"name": name, "port": port, "targetPort": name, "protocol": "TCP"} for name, port in chosen
    ]


_QUERY, _CHANGELOG, _OPS = ("query", QUERY_PORT), ("changelog", CHANGELOG_PORT), ("ops", OPS_PORT)


def _pods_service(names: StoreNames, owner: Object) -> Object:
    spec = {
        "clusterIP": "None",
        # Pods find each other before they are ready: that is how they become ready.
        "publishNotReadyAddresses": True,
        "selector": {STORE_LABEL: names.store},
        "ports": _ports(_QUERY, _CHANGELOG, _OPS),
    }
    return _child(names, owner, names.pods_service, {"spec": spec})


def _query_service(names: StoreNames, owner: Object, access: AccessSpec) -> Object:
    spec = {
        "type": "ClusterIP",
        "selector": {STORE_LABEL: names.store},
        "ports": _ports(_QUERY, _CHANGELOG),
    }
    service = _child(names, owner, names.store, {"spec": spec})
    if access.service_annotations:
        service["metadata"]["annotations"] = access.service_annotations
    return service


def _disruption_budget(names: StoreNames, owner: Object, *, may_evict_one: bool) -> Object:
    spec = {
        # While a partition is not served, or a standby is missing, no second pod may go.
        "maxUnavailable": 1 if may_evict_one else 0,
        # A pod that is not ready may be evicted, so that it never blocks the drain of a node.
        "unhealthyPodEvictionPolicy": "AlwaysAllow",
        "selector": {"matchLabels": {STORE_LABEL: names.store}},
    }
    return _child(names, owner, names.store, {"spec": spec})


def _network_policy(
    names: StoreNames, owner: Object, access: AccessSpec, defaults: PodDefaults
) -> Object:
    everywhere: Object = {"namespaceSelector": {}}
    own_pods: Object = {"podSelector": {"matchLabels": {STORE_LABEL: names.store}}}
    writers: Object = {"podSelector": {"matchExpressions": [_exists(WRITER_LABEL)]}}
    # A writer discovers the partitions at the query port first.
    askers = [*_peers(access.query_from), own_pods, writers] if access.query_from else [everywhere]
    rules = [
        (QUERY_PORT, askers),
        (CHANGELOG_PORT, [own_pods, writers, *_operator(defaults)]),
        (OPS_PORT, _peers(access.metrics_from) or [everywhere]),
    ]
    spec = {
        "podSelector": {"matchLabels": {STORE_LABEL: names.store}},
        "policyTypes": ["Ingress"],
        "ingress": [
            {"from": peers, "ports": [{"port": port, "protocol": "TCP"}]} for port, peers in rules
        ],
    }
    return _child(names, owner, names.store, {"spec": spec})


def _operator(defaults: PodDefaults) -> list[Object]:
    """The operator's pods; none where it runs outside of the cluster.

    Whoever may label pods in another namespace is not among them.
    """
    namespace = defaults.operator_service_account.partition("/")[0]
    if not namespace:
        return []
    release = defaults.operator_release
    instance = {"app.kubernetes.io/instance": release} if release else {}
    return [
        {
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
            "podSelector": {"matchLabels": {**OPERATOR_LABELS, **instance}},
        }
    ]


def _peers(given: Peers) -> list[Object]:
    return [canonical(msgspec.to_builtins(peer)) for peer in given]


def _exists(label: str) -> Object:
    assert label.startswith(GROUP), "one of ours"
    return {"key": label, "operator": "Exists"}
