"""What the reconciler needs of the world. Kubernetes and the local cluster are two adapters."""

from typing import Protocol

from qss_core.model import PodAddress, StoreAssignment, StoreName
from qss_core.wire.losses import AcceptLossRequest
from qss_core.wire.replica_reports import ReplicasReport
from qss_operator.planning.model import ClusterState, Observation, StoreResource, StoreStatus


class Resources(Protocol):
    """The stored resources and their status."""

    async def read(self, store: StoreName) -> StoreResource | None:
        """The resource as it is now; None where it was deleted."""
        ...

    async def publish(self, resource: StoreResource, status: StoreStatus) -> None:
        """Replace the status; raises ConflictError if the resource changed since it was read."""
        ...


class Cluster(Protocol):
    """The pods as things that run. It starts a pod that ended again by itself."""

    async def observe(self, store: StoreName) -> ClusterState:
        """The pods of a store, whether they run or not."""
        ...

    async def keep(self, observation: Observation) -> None:
        """Bring what the pods need beside themselves to what the resource says."""
        ...

    async def set_replicas(self, store: StoreName, replicas: int) -> None:
        """Have this many pods; returns before they run."""
        ...


class Pods(Protocol):
    async def report(self, pod: PodAddress) -> ReplicasReport | None:
        """What a pod holds; None if it does not answer in time, or does not say so."""
        ...

    def refusal(self, pod: PodAddress) -> str | None:
        """Why a pod that was reached did not report the last time; None where it was not."""
        ...

    async def assign(self, pod: PodAddress, assignment: StoreAssignment) -> ReplicasReport:
        """Give a pod its assignment; raises a StoreError if it refuses or does not answer."""
        ...

    async def accept_loss(self, pod: PodAddress, request: AcceptLossRequest) -> ReplicasReport:
        """Have a partition go on without what it lost; raises a StoreError as `assign` does."""
        ...
