"""Chooses the pod that a writer's request goes to, and discovers the pods again. Pure."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from urllib.parse import urlencode

from qss_client.chunks.chunk import Slice
from qss_client.http.answer import HttpAnswer
from qss_client.http.retries import NoConnectionInTimeError
from qss_client.http.wait_warnings import TELL_AFTER_S
from qss_client.reads.routing.known_pods import is_silence
from qss_client.reads.routing.replica_choice import active_of, newer_of
from qss_client.writes.steps import Exchange, PodRequest, answer_to, pause_after
from qss_core.errors import StoreError, UnreachableError
from qss_core.model import Ordinal, PartitionId
from qss_core.wire.messages import Instance, StoreMetadata, decode

LATE_AFTER_S = 2.0
_BYTES_PER_S = 8 * 1024 * 1024  # A large body may take as much longer.
PROBE_TIMEOUT_S = 1.0
CONNECT_TIMEOUT_S = 0.5  # The kernel of a pod that is there takes a connection at once.
_FIRST_AGAIN_S = 0.1
COORDINATOR = PartitionId(0)  # The active of this partition coordinates the batches.


class Routes:
    """The pods of a store as one exchange knows them."""

    def __init__(
        self, metadata: StoreMetadata, learn: Callable[[StoreMetadata], None] = lambda _: None
    ) -> None:
        """`learn` takes newer routes, for the next exchanges."""
        self._metadata = metadata
        self._learn = learn
        self._silent: set[Ordinal] = set()  # The pods that gave no answer when asked last.
        self._discoveries = 0
        self._is_other_store = False
        # The store at the begin of the exchange: by now another store may have the same name.
        self._store_id = urlencode({"storeId": metadata.definition.store_id})

    def coordinator(self) -> Instance:
        """The pod that coordinates the batches."""
        return self.active(COORDINATOR)

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

    def answer(
        self, instance: Instance, partition: PartitionId, request: PodRequest
    ) -> Exchange[HttpAnswer]:
        """The answer of a partition's active; raises the failure.

        A pod that has not answered for two seconds (more for a large body) is asked for the routes.
        If it tells them and is still the active, it is slow: it gets the request again, with the
        whole time. If it takes no connection, the other pods are asked for the new active.
        """
        late_after_s = LATE_AFTER_S + len(request.body or b"") // _BYTES_PER_S
        timeout_s = min(request.timeout_s, late_after_s)
        try:
            first = replace(
                request, timeout_s=timeout_s, connect_timeout_s=min(timeout_s, CONNECT_TIMEOUT_S)
            )
            return (yield from answer_to(first))
        except NoConnectionInTimeError:
            self._silent.add(instance.ordinal)
            raise
        except UnreachableError as error:
            if not is_silence(error):
                raise
            works = yield from self._ask(instance, PROBE_TIMEOUT_S)
            if not works or self.active(partition).ordinal != instance.ordinal:
                raise
        return (yield from answer_to(request))

    def after(self, failure: StoreError) -> Exchange[None]:
        """Pauses, and discovers the routes again where the failure asks for it.

        While an active gives no answer at all, it waits until it answers, or there is another one.

        Raises the failure where no retry is left, and where the store has another id now.
        """
        timeout_s = _FIRST_AGAIN_S
        while True:
            again = yield from pause_after(failure)
            if not again.refresh:
                return
            yield from self._discover(failure, timeout_s)
            if not self._is_waiting:
                return
            timeout_s = min(PROBE_TIMEOUT_S, 2 * timeout_s)

    @property
    def _is_waiting(self) -> bool:
        """Whether an active gave no answer when it was asked last."""
        return any(entry.active in self._silent for entry in self._metadata.assignment)

    def _discover(self, failure: StoreError, again_s: float) -> Exchange[None]:
        """Takes newer routes from the first pod that answers, and asks the silent actives again.

        Each time another pod is first: one that is cut off tells old routes. Raises `failure`
        where the store was deleted and made again.
        """
        instances = self._metadata.instances
        first = self._discoveries % len(instances)
        self._discoveries += 1
        for instance in (*instances[first:], *instances[:first]):
            if instance.ordinal in self._silent:
                continue
            if (yield from self._ask(instance, PROBE_TIMEOUT_S, CONNECT_TIMEOUT_S)):
                break
        if self._is_other_store:
            raise failure
        if self._is_waiting:
            for instance in self._metadata.instances:
                if instance.ordinal in self._silent:
                    yield from self._ask(instance, again_s)

    def _ask(
        self, instance: Instance, timeout_s: float, connect_timeout_s: float | None = None
    ) -> Exchange[bool]:
        """Takes newer routes from a pod; returns whether it answers.

        One that a request waits for has the whole time for the connection, too.
        """
        request = PodRequest(
            method="GET",
            url=f"{instance.changelog}/state/instances/{self._metadata.definition.name}",
            timeout_s=timeout_s,
            connect_timeout_s=connect_timeout_s,
            tell_after_s=TELL_AFTER_S,
        )
        try:
            answer = yield from answer_to(request)
            found = decode(answer.body, StoreMetadata)
        except StoreError as error:
            if is_silence(error):
                self._silent.add(instance.ordinal)
            return False
        self._silent.discard(instance.ordinal)
        if found.definition.store_id != self._metadata.definition.store_id:
            self._is_other_store = True
            return True
        self._metadata = newer_of(self._metadata, found)
        self._learn(self._metadata)
        return True
