"""Reads the resources of stores and writes their status (the port Resources)."""

from collections.abc import Callable

import msgspec

from qss_core.model import StoreName
from qss_core.spec.resource import decode_spec
from qss_operator.kubernetes.api.client import KubernetesApi
from qss_operator.kubernetes.api.kinds import STORES
from qss_operator.kubernetes.api.read_cache import ReadCache
from qss_operator.kubernetes.api.requests import Object
from qss_operator.planning.annotations import annotated_resource
from qss_operator.planning.findings.served_partitions import is_serving
from qss_operator.planning.model import StoreResource, StoreStatus
from qss_operator.resources.crd import canonical
from qss_operator.resources.status_document import decode_status, encode_status
from qss_operator.resources.support import supported_spec

OnPublished = Callable[[StoreStatus | None, StoreStatus], None]


class KubernetesResources:
    def __init__(
        self, api: KubernetesApi, cache: ReadCache, on_published: OnPublished = lambda *_: None
    ) -> None:
        """Reads by `cache`, writes by `api`; `on_published` gets the status before and after."""
        self._api = api
        self._cache = cache
        self._on_published = on_published

    async def read(self, store: StoreName) -> StoreResource | None:
        """The present resource; None where it was deleted.

        Wishes of the spec that are not supported yet are replaced by supported values.
        """
        found = await self._cache.store()
        if found is None or found["metadata"]["name"] != store:
            return None
        return resource_of(found)

    async def publish(self, resource: StoreResource, status: StoreStatus) -> None:
        """Replace the status; raises ConflictError if the resource changed since it was read."""
        found = await self._cache.store()
        if found is None:
            return
        metadata = found["metadata"]
        body: Object = {
            "metadata": {
                "name": metadata["name"],
                "namespace": metadata["namespace"],
                "uid": resource.uid,
                "resourceVersion": resource.version,
            },
            # The API server ignores the spec of a status update, but requires it.
            "spec": found["spec"],
            "status": encode_status(status),
        }
        try:
            written = await self._api.replace(
                STORES, metadata["namespace"], metadata["name"], body, subresource="status"
            )
        except BaseException:
            self._cache.forget(STORES)
            raise
        self._cache.written(STORES, written)
        self._on_published(resource.status, status)


def resource_of(found: Object) -> StoreResource:
    """The resource as the planner sees it."""
    metadata, status = found["metadata"], published_status(found)
    spec = supported_spec(decode_spec(canonical(found["spec"])))[0]
    return annotated_resource(metadata, metadata["resourceVersion"], spec, status)


def unsupported_lines(found: Object) -> list[str]:
    """A line for each field of the spec with a value that is not supported yet."""
    spec = decode_spec(canonical(found["spec"]))
    return supported_spec(spec)[1]


def serves(store: Object) -> bool | None:
    """Whether every partition is served; None for a store that hibernates."""
    if store["spec"].get("replicas") == 0:
        return None
    status = published_status(store)
    return status is not None and is_serving(status)


def degraded_reason(store: Object) -> str | None:
    """The reason of the condition Degraded where it is True."""
    conditions = (store.get("status") or {}).get("conditions") or ()
    found = (one for one in conditions if one.get("type") == "Degraded")
    return next((one.get("reason") for one in found if one.get("status") == "True"), None)


def published_status(store: Object) -> StoreStatus | None:
    """The published status; None where it is missing or has another form."""
    status = store.get("status")
    if not status:
        return None
    try:
        return decode_status(status)
    except msgspec.ValidationError:
        # An older operator, or a person, wrote it: the assignment is read from the pods then.
        return None
