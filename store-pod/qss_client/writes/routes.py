"""Chooses the pod that a writer's request goes to, and discovers the pods again. Pure."""

from collections.abc import Iterable
from urllib.parse import urlencode

from qss_client.chunks.chunk import Slice
from qss_client.http.wait_warnings import TELL_AFTER_S
from qss_client.reads.routing.replicas import active_of
from qss_client.writes.steps import Exchange, PodRequest, answer_to, pause_after
from qss_core.errors import StoreError
from qss_core.model import PartitionId
from qss_core.wire.messages import Instance, StoreMetadata, decode

DISCOVERY_TIMEOUT_S = 5.0
_COORDINATOR = PartitionId(0)  # The active of this partition coordinates the batches.


class Routes:
    """The pods of a store as one exchange knows them."""

    def __init__(self, metadata: StoreMetadata) -> None:
        self._metadata = metadata
        # The store at the begin of the exchange: by now another store may have the same name.
        self._store_id = urlencode({"storeId": metadata.definition.store_id})

    def coordinator(self) -> Instance:
        """The pod that coordinates the batches."""
        return self.active(_COORDINATOR)

    def active(self, partition: PartitionId) -> Instance:
        """The pod that has the active of a partition."""
        return active_of(self._metadata, partition)

    def by_active(self, slices: Iterable[Slice]) -> list[tuple[Instance, list[Slice]]]:
        """The slices, grouped by the pod that has the active of their partition."""
        groups: dict[int, tuple[Instance, list[Slice]]] = {}
        for one in slices:
            instance = self.active(one.partition)
            groups.setdefault(instance.ordinal, (instance, []))[1].append(one)
        return list(groups.values())

    def url(self, instance: Instance, path: str) -> str:
        """A path below the store, on a pod's internal port; the query string names the store id."""
        name = self._metadata.definition.name
        return f"{instance.changelog}/changelog/stores/{name}/{path}?{self._store_id}"

    def after(self, failure: StoreError) -> Exchange[None]:
        """Pauses, and discovers the routes again where the failure asks for it.

        Raises the failure where no retry is left, and where the store has another id now.
        """
        again = yield from pause_after(failure)
        if not again.refresh:
            return
        found = yield from self._discovered()
        if found is None:
            return
        if found.definition.store_id != self._metadata.definition.store_id:
            raise failure  # The routes are right: the store was deleted and made again.
        self._metadata = found

    def _discovered(self) -> Exchange[StoreMetadata | None]:
        """The routes, as told by the first pod that answers; None where no pod answers."""
        for instance in self._metadata.instances:
            request = PodRequest(
                method="GET",
                url=f"{instance.changelog}/state/instances/{self._metadata.definition.name}",
                timeout_s=DISCOVERY_TIMEOUT_S,
                tell_after_s=TELL_AFTER_S,
            )
            try:
                answer = yield from answer_to(request)
                return decode(answer.body, StoreMetadata)
            except StoreError:
                continue
        return None
