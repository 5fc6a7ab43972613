"""Reports pods that are missing or wait too long.

Only the events of a StatefulSet have the reason why it cannot create a pod.
"""

from collections.abc import Mapping
from typing import Any, Protocol

from qss_client.clock import Clock
from qss_core.errors import StoreError
from qss_operator.kubernetes.api.kinds import EVENTS, Kind
from qss_operator.kubernetes.names import StoreNames

Object = dict[str, Any]

# A StatefulSet creates all its pods within a second; a restarted pod is away as long.
_PATIENCE_S = 5.0
_ASKED_EVERY_S = 5.0
# A volume is created after a node was chosen; until then the pod and its claim are Pending.
_WAIT_S = 20.0
# After a pod's grace period the kubelet ends it by force, and tells the API server within seconds.
_END_RESERVE_S = 30.0
_GRACE_S = 30.0
_SAID = "failed error: "
_LINE_CHARS_MAX = 400


class EventReader(Protocol):
    """The method of KubernetesApi that reads events."""

    async def list(
        self,
        kind: Kind,
        namespace: str | None,
        label_selector: str | None = None,
        *,
        field_selector: str | None = None,
    ) -> list[Object]:
        """All objects with these labels and fields."""
        ...


class MissingPods:
    """Measures how long pods of one store are missing, and finds the reasons."""

    def __init__(self, api: EventReader, names: StoreNames, clock: Clock) -> None:
        self._api = api
        self._names = names
        self._clock = clock
        self._since_s: dict[int, float] = {}
        self._asked_at_s: float | None = None
        self._events: list[Object] = []

    async def troubles(
        self, stateful_set: Object | None, replicas: int, pods: Mapping[str, Object]
    ) -> dict[int, str]:
        """The troubles of pods that have been missing for some seconds, by ordinal."""
        now_s = self._clock.monotonic_s()
        missing = [one for one in range(replicas) if self._names.pod(one) not in pods]
        self._since_s = {one: self._since_s.get(one, now_s) for one in missing}
        late = [one for one in missing if now_s - self._since_s[one] >= _PATIENCE_S]
        if stateful_set is None or not late:
            self._asked_at_s, self._events = None, []
            return {}
        if self._asked_at_s is None or now_s - self._asked_at_s >= _ASKED_EVERY_S:
            self._asked_at_s = now_s
            self._events = await self._ask(stateful_set["metadata"]["uid"])
        return {one: self._trouble(self._names.pod(one)) for one in late}

    async def _ask(self, uid: str) -> list[Object]:
        selector = f"involvedObject.uid={uid},reason=FailedCreate"
        try:
            return await self._api.list(EVENTS, self._names.namespace, field_selector=selector)
        except StoreError:
            return []  # The command that shows them is told instead.

    def _trouble(self, pod: str) -> str:
        said = [event for event in self._events if f"Pod {pod} " in (event.get("message") or "")]
        if not said:
            names = self._names
            command = f"kubectl describe statefulset {names.store} -n {names.namespace}"
            return f"is not made by its StatefulSet: `{command}` shows why"
        message: str = max(said, key=_time_of)["message"]
        why = message.partition(_SAID)[2] or message
        # Without the pod's name, so that one refusal of several pods is reported once.
        why = why.replace(f'pods "{pod}" is ', "")
        return f"is not made: {why}"[:_LINE_CHARS_MAX]


class Waits:
    """Measures how long pods of one store wait for a node, for a volume, or for their end."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._since_s: dict[int, float] = {}
        self._ends_since_s: dict[int, tuple[str, float]] = {}  # With the pod's uid.

    def trouble(self, ordinal: int, waits: str | None) -> str | None:
        """The trouble of a pod that waits longer than in a normal start, or None."""
        if waits is None:
            self._since_s.pop(ordinal, None)
            return None
        now_s = self._clock.monotonic_s()
        since_s = self._since_s.setdefault(ordinal, now_s)
        return waits if now_s - since_s >= _WAIT_S else None

    def is_stuck(self, ordinal: int, pod: Object | None) -> bool:
        """Whether a pod is being ended for longer than its kubelet would take.

        The time counts from when this process saw it first: clocks of other machines may be wrong.
        """
        metadata = (pod or {}).get("metadata") or {}
        if "deletionTimestamp" not in metadata:
            self._ends_since_s.pop(ordinal, None)
            return False
        now_s = self._clock.monotonic_s()
        uid, since_s = self._ends_since_s.get(ordinal, ("", now_s))
        if uid != metadata["uid"]:
            since_s = now_s
        self._ends_since_s[ordinal] = metadata["uid"], since_s
        grace_s = float(metadata.get("deletionGracePeriodSeconds", _GRACE_S))
        return now_s - since_s >= grace_s + _END_RESERVE_S


def _time_of(event: Object) -> str:
    return event.get("lastTimestamp") or event.get("eventTime") or ""
