"""Reads and changes the pods of one store on Kubernetes (the port Cluster)."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypedDict

from qss_core.model import StoreName
from qss_operator.errors import reason_of
from qss_operator.kubernetes.access.pod_access import PodAccess
from qss_operator.kubernetes.api.kinds import PERSISTENT_VOLUME_CLAIMS, PODS, STATEFUL_SETS
from qss_operator.kubernetes.api.read_cache import ReadCache
from qss_operator.kubernetes.names import StoreNames
from qss_operator.kubernetes.objects.children_apply import ChildrenApply
from qss_operator.kubernetes.objects.missing_pods import MissingPods, Waits
from qss_operator.kubernetes.objects.nodes import Node, Nodes
from qss_operator.kubernetes.objects.pod_failure import silence_of, trouble_of, wait_of
from qss_operator.kubernetes.objects.pod_image import version_of
from qss_operator.kubernetes.objects.pod_ip import ip_of
from qss_operator.kubernetes.objects.pod_template_age import (
    has_seen_its_template,
    is_outdated,
    is_ready,
)
from qss_operator.kubernetes.objects.volumes import doomed_claims, largest_volume
from qss_operator.planning.model import (
    ClusterState,
    ConditionStatus,
    ConditionType,
    Finding,
    Observation,
    PodState,
)

Object = dict[str, Any]


class _OfNode(TypedDict):
    """The members of a PodState that its node has."""

    zone: str
    is_cordoned: bool


class KubernetesCluster:
    """The pods of one store. The kubelets restart containers that ended."""

    def __init__(
        self,
        names: StoreNames,
        cache: ReadCache,
        children: ChildrenApply,
        nodes: Nodes,
        spread_key: str,
        missing: MissingPods,
        waits: Waits,
        access: PodAccess,
    ) -> None:
        """Reads by `cache`; `children` changes the StatefulSet; `access` gets the pods.

        The label `spread_key` of a node is the zone of its pods.
        """
        self._access = access
        self._missing = missing
        self._waits = waits
        self._names = names
        self._cache = cache
        self._children = children
        self._nodes = nodes
        self._spread_key = spread_key

    async def observe(self, store: StoreName) -> ClusterState:
        """The pods of a store, whether they run or not."""
        found = (await self._cache.children(STATEFUL_SETS)).get(store)
        replicas = _replicas_of(found)
        pods = await self._cache.children(PODS)
        self._access.saw(pods, found)
        claims = await self._cache.children(PERSISTENT_VOLUME_CLAIMS)
        # A set that is being replaced leaves its pods alone.
        present = sum(self._names.pod(ordinal) in pods for ordinal in range(len(pods)))
        not_made = await self._missing.troubles(found, replicas, pods)
        by_template = self._compared_with(found, claims)
        error = self._access.secret_error
        states = [
            await self._state(
                ordinal,
                pods,
                claims,
                not_made.get(ordinal),
                by_template,
                comes_back=ordinal < replicas,
            )
            for ordinal in range(max(replicas, present))
        ]
        return ClusterState(
            replicas=replicas,
            pods=tuple(states),
            endpoints=self._names.endpoints(),
            selector=self._names.selector,
            volume_size=largest_volume(
                claim for name, claim in claims.items() if self._names.is_claim(name)
            ),
            findings=self._findings(),
            holds_restarts=None if error is None else error.message,
        )

    async def look_at_nodes(self, cluster: ClusterState) -> ClusterState:
        """The same pods, with the present states of their nodes."""
        pods = [
            replace(pod, **self._of_node(await self._nodes.anew(pod.node))) for pod in cluster.pods
        ]
        return replace(cluster, pods=tuple(pods))

    async def keep(self, observation: Observation) -> None:
        """Bring the other children, the templates of pods and the volumes up to date."""
        await self._children.run_round(observation)

    async def set_replicas(self, store: StoreName, replicas: int) -> None:
        """Have this many pods; returns before they run."""
        assert store == self._names.store, "one cluster for each store"
        await self._children.set_replicas(replicas)

    async def restart(self, store: StoreName, pod: PodState) -> None:
        """Delete a pod; the StatefulSet makes it again, with its present template."""
        assert store == self._names.store, "one cluster for each store"
        await self._children.restart(pod)

    def _findings(self) -> Mapping[ConditionType, Finding]:
        """The tasks of the children, and the Secret that cannot be used."""
        findings, kind = self._children.findings, ConditionType.DEGRADED
        if (error := self._access.secret_error) is None:
            return findings
        message = (
            f"{error.message}; until then the operator checks the pods by the certificate "
            "authority that it read last, and restarts none of them"
        )
        if (told := findings.get(kind)) is not None:
            return {**findings, kind: (told[0], told[1], f"{told[2]}; {message}")}
        return {**findings, kind: (ConditionStatus.TRUE, reason_of(error), message)}

    def _compared_with(self, found: Object | None, claims: Mapping[str, Object]) -> Object | None:
        """The StatefulSet with the template that pods should have; None while none may restart.

        A deleted volume would disappear with its pod.
        """
        if found is None or "deletionTimestamp" in found["metadata"]:
            return None
        if not has_seen_its_template(found):
            self._cache.forget(STATEFUL_SETS)
            return None
        return None if doomed_claims(self._names, claims) else found

    async def _state(
        self,
        ordinal: int,
        pods: Mapping[str, Object],
        claims: Mapping[str, Object],
        not_made: str | None,
        by_template: Object | None,
        *,
        comes_back: bool,
    ) -> PodState:
        pod = pods.get(self._names.pod(ordinal))
        claim = claims.get(self._names.claim(ordinal))
        ip = ip_of(pod, comes_back=comes_back)
        waits = self._waits.trouble(ordinal, wait_of(pod, claim))
        node = (pod or {}).get("spec", {}).get("nodeName")
        return PodState(
            address=self._names.address(ordinal),
            is_running=ip is not None,
            # Only the pod itself can look inside its volume.
            has_data=None,
            **self._of_node(await self._nodes.of(node)),
            node=node or "",
            version=version_of(pod),
            trouble=not_made or trouble_of(pod) or waits,
            if_silent=silence_of(pod),
            uid=None if pod is None else pod["metadata"]["uid"],
            is_ready=pod is not None and is_ready(pod),
            is_outdated=pod is not None
            and by_template is not None
            and is_outdated(pod, by_template),
            is_leaving=pod is not None and "deletionTimestamp" in pod["metadata"],
            is_stuck=self._waits.is_stuck(ordinal, pod),
            deleted_volume=self._deleted_claim(ordinal, pod, claims),
            control=None if ip is None else self._names.address_by_ip(ordinal, ip),
        )

    def _deleted_claim(
        self, ordinal: int, pod: Object | None, claims: Mapping[str, Object]
    ) -> str | None:
        """The claim of a pod where it is deleted, and is there until the pod ends."""
        name = self._names.claim(ordinal)
        return name if pod is not None and name in doomed_claims(self._names, claims) else None

    def _of_node(self, node: Node) -> _OfNode:
        zone = node.labels.get(self._spread_key, "")
        return {"zone": zone, "is_cordoned": node.is_cordoned}


def _replicas_of(stateful_set: Object | None) -> int:
    """The requested number of pods; 0 without a StatefulSet, or while it is being deleted."""
    if stateful_set is None or "deletionTimestamp" in stateful_set["metadata"]:
        return 0
    replicas: int = stateful_set["spec"]["replicas"]
    return replicas
