"""The ports of the reconciler; Kubernetes and the local cluster are its two adapters."""

from typing import Protocol

from qss_core.model import PodAddress, StoreAssignment, StoreName
from qss_core.wire.conditions import TellConditionsRequest
from qss_core.wire.losses import AcceptLossRequest
from qss_core.wire.replica_reports import ReplicasReport
from qss_core.wire.retirement import RetireRequest
from qss_operator.planning.model import (
    ClusterState,
    Observation,
    PodState,
    StoreResource,
    StoreStatus,
)


class Resources(Protocol):
    """The stored resources and their status."""

    async def read(self, store: StoreName) -> StoreResource | None:
        """The resource as it is now; None where it was deleted."""
        ...

    async def publish(self, resource: StoreResource, status: StoreStatus) -> None:
        """Replace the status; raises ConflictError if the resource changed since it was read."""
        ...


class Cluster(Protocol):
    """The processes of the pods. The cluster starts a pod again that ended by itself."""

    async def observe(self, store: StoreName) -> ClusterState:
        """The pods of a store, whether they run or not."""
        ...

    async def look_at_nodes(self, cluster: ClusterState) -> ClusterState:
        """The pods with their nodes' present states; asked before a pod gets a new replica."""
        ...

    async def keep(self, observation: Observation) -> None:
        """Bring the objects beside the pods to the state of the resource."""
        ...

    async def set_replicas(self, store: StoreName, replicas: int) -> None:
        """Have this many pods; returns before they run."""
        ...

    async def restart(self, store: StoreName, pod: PodState) -> None:
        """End a pod, and start it with the present template; returns before it runs.

        A pod of the same name that has another `uid` is left alone.
        """
        ...


class Pods(Protocol):
    async def report(self, pod: PodAddress) -> ReplicasReport | None:
        """The replicas of a pod; None if the pod does not answer in time, or refuses."""
        ...

    def refusal(self, pod: PodAddress) -> str | None:
        """The reason why a reached pod did not report the last time; None otherwise."""
        ...

    async def assign(self, pod: PodAddress, assignment: StoreAssignment) -> ReplicasReport:
        """Give a pod its assignment; raises a StoreError if it refuses or does not answer."""
        ...

    async def retire(self, pod: PodAddress, request: RetireRequest) -> ReplicasReport:
        """Have a pod delete a replica; raises a StoreError as `assign` does."""
        ...

    async def accept_loss(self, pod: PodAddress, request: AcceptLossRequest) -> ReplicasReport:
        """Let a partition continue without its lost rows; raises a StoreError as `assign` does."""
        ...

    async def tell_conditions(self, pod: PodAddress, request: TellConditionsRequest) -> None:
        """Tell a pod the store's conditions, within a second; raises a StoreError as `assign` does.

        Raises PathNotFoundError for a pod of a version that does not take them.
        """
        ...
