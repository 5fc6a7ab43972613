"""Keeps a store's children up to date: applies them, restarts old pods, grows volumes.

Each round begins with the present objects, so the next round completes an interrupted one.
"""

import logging
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from qss_client.clock import Clock
from qss_core.spec.resource import StoreSpec
from qss_operator.backoff import Backoff
from qss_operator.errors import NameTakenError
from qss_operator.kubernetes.access.audiences import (
    PodAudiences,
    audiences_of,
    is_pod_of,
    next_audiences,
    own_of,
    template_of,
)
from qss_operator.kubernetes.api.client import KubernetesApi
from qss_operator.kubernetes.api.errors import ForbiddenError, InvalidError
from qss_operator.kubernetes.api.kinds import (
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
    SERVICE_ACCOUNTS,
    STATEFUL_SETS,
    Kind,
)
from qss_operator.kubernetes.api.read_cache import ReadCache
from qss_operator.kubernetes.api.requests import FIELD_MANAGER
from qss_operator.kubernetes.names import StoreNames, store_of
from qss_operator.kubernetes.objects.children import (
    beside_pods,
    owner_of,
    stateful_set,
    storage_text,
    with_restart,
)
from qss_operator.kubernetes.objects.pod_template import PodDefaults
from qss_operator.kubernetes.objects.volumes import (
    doomed_claims,
    growth_refused,
    plan_growth,
)
from qss_operator.kubernetes.status_writer import unsupported_lines
from qss_operator.planning.findings.evictions import may_evict
from qss_operator.planning.findings.wishes import RESIZE_REFUSED, UNSUPPORTED
from qss_operator.planning.model import (
    ConditionStatus,
    ConditionType,
    Finding,
    Observation,
    PodState,
)

logger = logging.getLogger(__name__)

Object = dict[str, Any]
# Posts an event with a reason and a message.
Tell = Callable[[str, str], None]


class ChildrenApply:
    def __init__(
        self,
        api: KubernetesApi,
        cache: ReadCache,
        names: StoreNames,
        defaults: PodDefaults,
        tell: Tell,
        clock: Clock,
    ) -> None:
        """`tell` posts an event about the store."""
        self._api = api
        self._cache = cache
        self._names = names
        self._defaults = defaults
        self._tell = tell
        self._clock = clock
        self._owner: Object = {}
        self._spec: StoreSpec | None = None
        self._applied: dict[tuple[Kind, str], tuple[bytes, str]] = {}
        self._growth = Backoff()
        self.findings: dict[ConditionType, Finding] = {}

    async def run_round(self, observation: Observation) -> None:
        """Updates the children by the spec."""
        store = await self._cache.store()
        if store is None:
            return
        spec = with_restart(observation.resource)
        self._owner, self._spec = owner_of(store), spec
        may_evict_one = may_evict(observation) and not await self._doomed()
        self.findings = findings = {}
        if lines := unsupported_lines(store):
            findings[ConditionType.DEGRADED] = (ConditionStatus.TRUE, UNSUPPORTED, "; ".join(lines))
        for kind, body in beside_pods(
            self._names, self._owner, spec.access, self._defaults, may_evict_one=may_evict_one
        ):
            await self._apply(kind, body)
        found = await self._found_set()
        if found is not None and (growing := await self._grow(found, spec)) is not None:
            findings[ConditionType.STORAGE_RESIZING] = growing
        found = await self._found_set()
        if found is not None:
            await self.set_replicas(found["spec"]["replicas"])

    async def _found_set(self) -> Object | None:
        """The StatefulSet, unless it is being deleted."""
        found = (await self._cache.children(STATEFUL_SETS)).get(self._names.store)
        return None if found is None or "deletionTimestamp" in found["metadata"] else found

    async def _doomed(self) -> list[str]:
        return doomed_claims(self._names, await self._cache.children(PERSISTENT_VOLUME_CLAIMS))

    async def set_replicas(self, replicas: int) -> None:
        """Applies the StatefulSet with this many pods; not fewer if a volume would disappear."""
        assert self._spec is not None, "a round comes first"
        found = await self._found_set()
        if found is not None and replicas < found["spec"]["replicas"] and await self._doomed():
            return
        accounts = await self._cache.children(SERVICE_ACCOUNTS)
        account = accounts.get(self._names.service_account)
        body = stateful_set(
            self._names,
            self._owner,
            self._spec,
            self._defaults,
            replicas,
            account_uid=account["metadata"]["uid"] if account is not None else "",
            audiences=await self._audiences(found),
        )
        found = (await self._cache.children(STATEFUL_SETS)).get(self._names.store)
        if found is not None and "deletionTimestamp" in found["metadata"]:
            self._cache.forget(STATEFUL_SETS)
            return  # A new one can be made only after it is gone.
        if found is not None:
            # The template of claims cannot change; `_grow` replaces the set if needed.
            body["spec"]["volumeClaimTemplates"] = found["spec"]["volumeClaimTemplates"]
        await self._apply(STATEFUL_SETS, body)

    async def _audiences(self, found: Object | None) -> PodAudiences:
        """The audiences for the pods' template."""
        pods = (await self._cache.children(PODS)).values()
        known = [
            audiences_of(pod.get("spec") or {})
            for pod in pods
            if found is None or is_pod_of(pod, found)
        ]
        return next_audiences(
            own_of(self._names),
            template_of(found),
            [one for one in known if one is not None],
            0 if found is None else found["spec"]["replicas"],
        )

    async def _apply(self, kind: Kind, body: Object) -> None:
        """Applies an object that is missing, was edited, or has to change."""
        name = body["metadata"]["name"]
        found = (await self._cache.children(kind)).get(name)
        wanted = msgspec.json.encode(body, order="deterministic")
        place = (kind, name)
        if found is not None and self._applied.get(place) == (wanted, _edition(found)):
            return
        if found is None:
            await self._check_is_free(kind, name)
        if found is None and place in self._applied:
            self._tell("ChildRestored", f"{kind.kind} {name} was deleted and is made again")
        was_applied = self._applied.get(place)
        written = await self._api.apply(kind, self._names.namespace, body)
        self._cache.written(kind, written)
        if found is not None and was_applied is not None and was_applied[0] == wanted:
            self._tell_of_revert(kind, found, written)
        self._applied[place] = (wanted, _edition(written))

    def _tell_of_revert(self, kind: Kind, found: Object, written: Object) -> None:
        """Posts an event if the apply reverted another client's change."""
        name = found["metadata"]["name"]
        if _without_bookkeeping(found) != _without_bookkeeping(written):
            who = last_manager(found)
            by = f" by {who}" if who is not None else ""
            self._tell("ChildReverted", f"{kind.kind} {name} was changed{by} and is set back")

    async def _check_is_free(self, kind: Kind, name: str) -> None:
        """Raises NameTakenError if an object that is not the store's has the name.

        An object without the label that the store owns is the store's: the label was edited.
        """
        there = await self._api.find(kind, self._names.namespace, name)
        if there is None:
            return
        metadata = there["metadata"]
        owners = [owner["uid"] for owner in metadata.get("ownerReferences") or ()]
        store = store_of(metadata.get("labels"))
        if self._owner["uid"] not in owners and store != self._names.store:
            raise NameTakenError(
                f"{kind.kind} {name} exists and does not belong to this store, so the operator "
                "leaves it as it is. Give the store another name, or delete that object if nobody "
                "needs it"
            )

    # --- Restarts

    async def restart(self, pod: PodState) -> None:
        """Deletes a pod of an older template, or volume; the StatefulSet makes it again."""
        name = pod.address.name
        why = "its template changed"
        if pod.deleted_volume is not None:
            # The pod may have its new claim already, of which no watch has told yet.
            self._cache.forget(PERSISTENT_VOLUME_CLAIMS)
            if pod.deleted_volume not in await self._doomed():
                return
            why = f"{pod.deleted_volume} was deleted, and is made anew with the pod"
        self._tell("PodRestarted", f"{name}: {why}")
        await self._api.delete(PODS, self._names.namespace, name, uid=pod.uid)
        self._cache.forget(PODS)

    # --- Volumes

    async def _grow(self, found: Object, spec: StoreSpec) -> Finding | None:
        size = storage_text(spec)
        all_claims = await self._cache.children(PERSISTENT_VOLUME_CLAIMS)
        own = {self._names.claim(number) for number in range(found["spec"]["replicas"])}
        claims = {name: claim for name, claim in all_claims.items() if name in own}
        failure = self._growth.of(PERSISTENT_VOLUME_CLAIMS)
        refused = None
        if failure is not None and failure.tried == size:
            refused = growth_refused(size, failure.error.message)
        growth = plan_growth(size, claims, _set_size(found), refused)
        if self._growth.is_due(PERSISTENT_VOLUME_CLAIMS, size, self._clock.monotonic_s()):
            await self._grow_claims(growth.claims, size)
        if growth.remake_set:
            await self._remake_set(found)
        return growth.finding

    async def _grow_claims(self, names: Sequence[str], size: str) -> None:
        patch = {"spec": {"resources": {"requests": {"storage": size}}}}
        try:
            for name in names:
                written = await self._api.merge_patch(
                    PERSISTENT_VOLUME_CLAIMS, self._names.namespace, name, patch
                )
                self._cache.written(PERSISTENT_VOLUME_CLAIMS, written)
        except (ForbiddenError, InvalidError) as error:
            now_s = self._clock.monotonic_s()
            if self._growth.failed(PERSISTENT_VOLUME_CLAIMS, size, error, now_s):
                self._tell(RESIZE_REFUSED, growth_refused(size, error.message))
        else:
            self._growth.forget(PERSISTENT_VOLUME_CLAIMS)

    async def _remake_set(self, found: Object) -> None:
        metadata = found["metadata"]
        logger.info("%s: making the StatefulSet again for larger volumes", self._names.store)
        await self._api.delete(
            STATEFUL_SETS,
            self._names.namespace,
            metadata["name"],
            uid=metadata["uid"],
            propagation="Orphan",
        )
        # The StatefulSet disappears after it released its pods; then the plan asks for a new one.
        self._cache.forget(STATEFUL_SETS)


def _set_size(found: Object) -> str:
    template = found["spec"]["volumeClaimTemplates"][0]
    size: str = template["spec"]["resources"]["requests"]["storage"]
    return size


def _without_bookkeeping(found: Object) -> Object:
    """The part that people write: without the status and fields that each write changes."""
    metadata = found["metadata"]
    kept = {name: metadata.get(name) or {} for name in ("labels", "annotations")}
    owners = metadata.get("ownerReferences") or []
    rest = {name: one for name, one in found.items() if name not in ("metadata", "status")}
    rest.pop("kind", None)
    rest.pop("apiVersion", None)
    return {**rest, "metadata": kept, "owners": owners}


def last_manager(found: Object) -> str | None:
    """The last writer of an object other than the operator and the status's writers."""
    fields = found["metadata"].get("managedFields") or []
    others = [
        one
        for one in fields
        if one.get("manager") != FIELD_MANAGER and one.get("subresource") != "status"
    ]
    newest = max(others, key=lambda one: str(one.get("time") or ""), default=None)
    return None if newest is None else newest.get("manager")


def _edition(found: Object) -> str:
    """A value that changes with each edit: the generation, if the kind has one."""
    metadata = found["metadata"]
    return f"{metadata['uid']}/{metadata.get('generation') or metadata['resourceVersion']}"
