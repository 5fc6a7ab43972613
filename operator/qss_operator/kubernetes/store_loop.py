"""One store's loop: watches wake it, and each round reads the objects from the API server."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from qss_client.clock import Clock
from qss_core.errors import Retry, StoreError
from qss_core.model import StoreName
from qss_core.spec.resource import StoreSpec, decode_spec
from qss_operator.errors import ConflictError
from qss_operator.kubernetes.access.pod_access import PodAccess
from qss_operator.kubernetes.access.tokens import StoreTokens
from qss_operator.kubernetes.api.client import KubernetesApi
from qss_operator.kubernetes.api.kinds import PODS, STATEFUL_SETS, STORES, Kind
from qss_operator.kubernetes.api.read_cache import ReadCache
from qss_operator.kubernetes.api.requests import Object
from qss_operator.kubernetes.cluster import KubernetesCluster
from qss_operator.kubernetes.events.change_events import ChangeEvents
from qss_operator.kubernetes.events.event_limits import EventType, Subject
from qss_operator.kubernetes.events.poster import Events
from qss_operator.kubernetes.events.status_events import events_of
from qss_operator.kubernetes.failure_status import refused_status, troubled_status
from qss_operator.kubernetes.leadership.health import Health
from qss_operator.kubernetes.names import StoreNames
from qss_operator.kubernetes.objects.children_apply import ChildrenApply
from qss_operator.kubernetes.objects.deletion import Deletion
from qss_operator.kubernetes.objects.missing_pods import MissingPods, Waits
from qss_operator.kubernetes.objects.nodes import Nodes
from qss_operator.kubernetes.objects.pod_template import PodDefaults
from qss_operator.kubernetes.rounds import ROUND_S, Rounds, within
from qss_operator.kubernetes.status_writer import (
    KubernetesResources,
    degraded_reason,
    published_status,
    resource_of,
    serves,
    unsupported_lines,
)
from qss_operator.metrics import OperatorMetrics
from qss_operator.planning.findings.wishes import UNSUPPORTED
from qss_operator.planning.membership.changes import Changes, changes_of
from qss_operator.planning.model import StoreStatus
from qss_operator.planning.status import deleting_status
from qss_operator.ports import Pods
from qss_operator.reconcile.reconciler import Intervals, StoreReconciler
from qss_operator.resources.crd import canonical
from qss_operator.times import time_of, utc

logger = logging.getLogger(__name__)

INTERVALS = Intervals(unsettled_s=0.5, settled_s=2.0, publish_s=1.0)
_FAILED_S = 2.0
_BUG = "the operator met an unexpected error: its log has the details, please report them"
_FAILED_S_MAX = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreContext:
    """The parts that all stores of an operator share."""

    api: KubernetesApi
    pods_of: Callable[[PodAccess], Pods]
    events: Events
    health: Health
    metrics: OperatorMetrics
    clock: Clock
    defaults: PodDefaults
    may_act: Callable[[], bool]
    nodes: Nodes
    rounds: Rounds
    round_s: float = ROUND_S


class StoreLoop:
    """The loop of one store, while its resource exists."""

    def __init__(self, namespace: str, store: StoreName, shared: StoreContext) -> None:
        """Reads no object before the first round."""
        self.names = StoreNames(namespace=namespace, store=store)
        self._title = f"{namespace}/{store}"
        self._shared = shared
        self._cache = ReadCache(
            shared.api,
            namespace,
            store,
            self.names.selector,
            clock=shared.clock,
            on_missed=shared.health.missed,
        )
        self._resources = KubernetesResources(shared.api, self._cache, self._announce)
        self._deletion = Deletion(shared.api, self._cache, self.names, shared.clock)
        self._made_of: tuple[bool, str] | None = None
        self.access: PodAccess | None = None
        self.reconciler: StoreReconciler | None = None
        self._woken = asyncio.Event()
        self._woken_at_s: float | None = None
        self._failures = 0
        self._refused = False  # Whether the last round went on after a refused action.
        self._subject: Subject | None = None
        self._changes = Changes()  # The last ones, with the moves that this process saw begin.
        self._change_events = ChangeEvents(store)

    def changed(self, kind: Kind, name: str, version: str | None) -> None:
        if self._cache.changed(kind, name, version):
            self.wake()

    def distrust(self) -> None:
        """Reads all objects anew: the watches may have missed changes."""
        self._cache.forget_all()
        self.wake()

    def wake(self) -> None:
        if self._woken_at_s is None:
            self._woken_at_s = self._shared.clock.monotonic_s()
        self._woken.set()

    async def run(self) -> None:
        """Rounds until the resource is gone or the task is cancelled."""
        health, clock = self._shared.health, self._shared.clock
        health.due(self._title, clock.monotonic_s())
        while True:
            async with self._shared.rounds.of(self.names.namespace, self._title):
                pause_s = await self._timed_round()
            if pause_s is None:
                health.is_over(self._title)
                return
            health.due(self._title, clock.monotonic_s() + pause_s)
            await self._wait(pause_s)

    async def _wait(self, pause_s: float) -> None:
        try:
            async with asyncio.timeout(pause_s):
                await self._woken.wait()
        except TimeoutError:
            pass
        self._woken.clear()

    async def _timed_round(self) -> float | None:
        """Runs one round; returns the pause after it, None when the store is gone."""
        clock, metrics = self._shared.clock, self._shared.metrics
        started_s = clock.monotonic_s()
        if self._woken_at_s is not None:
            metrics.started(started_s - self._woken_at_s)
            self._woken_at_s = None
        with self._shared.health.round_of(self._title):
            result, pause_s = await self.run_round()
        metrics.reconciled(result, clock.monotonic_s() - started_s)
        return pause_s

    async def run_round(self) -> tuple[str, float | None]:
        """Runs one round; returns its result and the pause, None when the store is gone."""
        self._refused = False
        try:
            async with within(self._shared.round_s):
                is_settled = await self._round()
        except ConflictError as error:
            # Another client changed the object first; the next round reads the change.
            logger.debug("%s: %s", self.names.store, error.message)
            self._cache.forget(STORES)
            return "unsettled", INTERVALS.unsettled_s
        except StoreError as error:
            self._shared.metrics.failed(error.code)
            logger.warning("%s: %s: %s", self.names.store, error.code, error.message)
            await self._publish_trouble(error)
            return "failed", self._pause_after_failure()
        except Exception:
            self._shared.metrics.failed("INTERNAL")
            # The loop goes on after a failed round.
            logger.exception("%s: a round failed", self.names.store)
            await self._publish_bug()
            return "failed", self._pause_after_failure()
        self._failures = 0
        if is_settled is None:
            return "gone", None
        if self._refused:
            return "failed", INTERVALS.unsettled_s
        if is_settled:
            return "settled", INTERVALS.settled_s
        return "unsettled", INTERVALS.unsettled_s

    def _pause_after_failure(self) -> float:
        self._failures += 1
        pause_s: float = _FAILED_S * 2 ** min(self._failures - 1, 10)
        return min(_FAILED_S_MAX, pause_s)

    async def _round(self) -> bool | None:
        if not self._shared.may_act():
            return False
        store = await self._cache.store()
        if store is None:
            self.reconciler = self.access = None
            return None if await self._deletion.clean_up() else False
        metadata = store["metadata"]
        self._subject = Subject(
            kind=STORES,
            namespace=self.names.namespace,
            name=self.names.store,
            uid=metadata["uid"],
        )
        self._measure(store)
        if "deletionTimestamp" in metadata:
            if (waits := await self._deletion.run_round(store)) is not None:
                before, now = published_status(store), time_of(utc(self._shared.clock))
                await self._publish(
                    store, deleting_status(before, metadata["generation"], waits, now)
                )
            return False
        if await self._deletion.hold(store):
            return False
        if (lines := unsupported_lines(store)) and not _is_made(store):
            await self._refuse(store, "; ".join(lines))
            return True
        reconciler = await self._reconciler_for(store)
        is_settled = await reconciler.run_round()
        short, place = reconciler.shortage, (self.names.namespace, str(self.names.store))
        self._shared.metrics.short(
            *place,
            under_replicated=short.under_replicated,
            without_in_sync=short.without_in_sync,
        )
        self._refused = bool(reconciler.failures)
        for failure in reconciler.failures:
            self._shared.metrics.failed(failure.code)
        return is_settled

    def _measure(self, store: Object) -> None:
        place = (self.names.namespace, str(self.names.store))
        self._shared.metrics.changed(*place)
        self._shared.metrics.saw(*place, is_ready=serves(store))
        self._shared.metrics.degraded(*place, degraded_reason(store))
        status = published_status(store)
        moves = status.moves if status is not None else None
        if moves is not None:
            self._shared.metrics.moving(*place, running=moves.running, waiting=moves.pending)

    async def _reconciler_for(self, store: Object) -> StoreReconciler:
        """The store's reconciler, made anew where its settings of TLS or zones change."""
        spec = decode_spec(canonical(store["spec"]))
        made_of = (spec.access.tls_secret_name is None, spec.topology.spread_key)
        if self.reconciler is None or made_of != self._made_of:
            self._made_of = made_of
            self.reconciler = self._make_reconciler(spec)
        assert self.access is not None, "made with it"
        await self.access.refresh_tokens(
            await self._cache.children(PODS),
            (await self._cache.children(STATEFUL_SETS)).get(self.names.store),
            checks_callers=spec.access.checks_callers,
        )
        await self.access.refresh(self._shared.api, spec.access.tls_secret_name)
        return self.reconciler

    def _make_reconciler(self, spec: StoreSpec) -> StoreReconciler:
        shared, cache = self._shared, self._cache
        names = StoreNames(
            namespace=self.names.namespace,
            store=self.names.store,
            scheme="http" if spec.access.tls_secret_name is None else "https",
        )
        defaults = shared.defaults
        tokens = StoreTokens(shared.api, defaults.operator_service_account, shared.clock)
        self.access = PodAccess(names, tokens, defaults.token_audience, shared.clock)
        children = ChildrenApply(shared.api, cache, names, defaults, self._tell, shared.clock)
        missing = MissingPods(shared.api, names, shared.clock)
        return StoreReconciler(
            names.store,
            resources=self._resources,
            cluster=KubernetesCluster(
                names,
                cache,
                children,
                shared.nodes,
                spec.topology.spread_key,
                missing,
                Waits(shared.clock),
                self.access,
            ),
            pods=shared.pods_of(self.access),
            clock=shared.clock,
            intervals=INTERVALS,
        )

    # --- Events and status

    def _tell(self, reason: str, message: str) -> None:
        kind = EventType.WARNING if reason.endswith("Refused") else EventType.NORMAL
        if self._subject is not None:
            self._shared.events.post(self._subject, kind, reason, message)

    def _announce(self, before: StoreStatus | None, after: StoreStatus) -> None:
        held = before.assignment if before is not None else None
        changes = self._changes = changes_of(held, after.assignment, self._changes.joining)
        self._shared.metrics.changed(
            self.names.namespace,
            str(self.names.store),
            failovers=len(changes.failovers),
            handovers=len(changes.handovers),
            begun=len(changes.begun),
            done=len(changes.done),
            cancelled=len(changes.cancelled),
        )
        if (subject := self._subject) is None:
            return
        for kind, reason, message in events_of(before, after):
            self._shared.events.post(subject, kind, reason, message)
        for event in self._change_events.of(changes, self._shared.clock.monotonic_s()):
            self._shared.events.post(subject, event.type, event.reason, event.message, event.group)

    async def _refuse(self, store: Object, message: str) -> None:
        before = published_status(store)
        generation = store["metadata"]["generation"]
        now = time_of(utc(self._shared.clock))
        await self._publish(store, refused_status(before, generation, UNSUPPORTED, message, now))

    async def _publish_trouble(self, error: StoreError) -> None:
        """Writes the error that stops the operator into the status, if that is possible."""
        if error.retry is not Retry.NEVER:
            return
        try:
            store = await self._cache.store()
            if store is None:
                return
            before = published_status(store)
            generation = store["metadata"]["generation"]
            status = troubled_status(before, generation, error, time_of(utc(self._shared.clock)))
            await self._publish(store, status)
        except StoreError as further:
            logger.debug("%s: %s", self.names.store, further.message)

    async def _publish_bug(self) -> None:
        """Writes an unexpected error into the status, if possible; the loop goes on in any case."""
        try:
            await self._publish_trouble(StoreError(_BUG))
        except Exception:
            logger.exception(
                "%s: writing this error into the status failed as well", self.names.store
            )

    async def _publish(self, store: Object, status: StoreStatus) -> None:
        if status == published_status(store):
            return
        await self._resources.publish(resource_of(store), status)


def _is_made(store: Any) -> bool:
    """Whether the store has got an assignment."""
    status = published_status(store)
    return status is not None and status.assignment is not None
