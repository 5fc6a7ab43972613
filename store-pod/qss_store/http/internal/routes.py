"""The routes of the internal port: writers, pods and the operator."""

from collections.abc import Callable
from dataclasses import dataclass

from qss_store.access.rights import Caller
from qss_store.http.discovery import DiscoveryApi
from qss_store.http.internal.handlers import STORE_ID, InternalApi
from qss_store.http.internal.replication import ReplicationApi
from qss_store.http.internal.writers import WritersApi
from qss_store.http.query.openapi.document import DocumentApi
from qss_store.http.query.routes import DISCOVERY_ROUTES
from qss_store.http.routes import Handler, Route
from qss_store.replication.messages import (
    APPEND_PATH,
    COMPARE_PATH,
    HELLO_PATH,
    SNAPSHOT_END_PATH,
    SNAPSHOT_PART_PATH,
    SNAPSHOT_PATH,
    UNLIKE_PATH,
)

_WRITERS = "/changelog/stores/{store}/writers"
_WRITER = _WRITERS + "/{writer}"
_BATCH = _WRITER + "/{epoch}/batches/{batch}"


@dataclass(frozen=True, slots=True, kw_only=True)
class InternalHandlers:
    discovery: DiscoveryApi
    document: DocumentApi
    internal: InternalApi
    replication: ReplicationApi
    writers: WritersApi

    def of_writer(self, handler: Handler) -> Handler:
        """A handler that only the coordinator answers; the request names the store id."""
        return self.internal.coordinated(handler, STORE_ID)


def _of_writers(
    method: str, path: str, handler: Callable[[InternalHandlers], Handler]
) -> Route[InternalHandlers]:
    return Route(path=path, caller=Caller.WRITER, handler=handler, method=method)


def _of_pods(path: str, handler: Callable[[InternalHandlers], Handler]) -> Route[InternalHandlers]:
    return Route(path=path, caller=Caller.POD, handler=handler, method="POST")


def _of_operator(
    method: str, path: str, handler: Callable[[InternalHandlers], Handler]
) -> Route[InternalHandlers]:
    return Route(path=path, caller=Caller.OPERATOR, handler=handler, method=method)


INTERNAL_ROUTES: tuple[Route[InternalHandlers], ...] = (
    _of_writers("GET", _WRITERS, lambda api: api.internal.coordinated(api.writers.list_all)),
    _of_writers("POST", _WRITER, lambda api: api.of_writer(api.internal.open_writer)),
    _of_writers(
        "DELETE", _WRITER, lambda api: api.internal.coordinated(api.writers.delete, "force")
    ),
    _of_writers("PUT", _BATCH + "/chunks/{chunk}", lambda api: api.internal.stage),
    _of_writers("POST", _BATCH + "/commit", lambda api: api.of_writer(api.internal.commit)),
    _of_writers("POST", _BATCH + "/abort", lambda api: api.of_writer(api.internal.abort)),
    _of_writers("POST", _WRITER + "/{epoch}/renew", lambda api: api.of_writer(api.internal.renew)),
    _of_pods("/transactions/prepare", lambda api: api.internal.prepare),
    _of_pods("/transactions/commit", lambda api: api.internal.commit_partitions),
    _of_pods("/transactions/abort", lambda api: api.internal.abort_partitions),
    _of_pods("/transactions/resolve", lambda api: api.internal.resolve),
    _of_pods("/transactions/sequences", lambda api: api.internal.sequences),
    _of_pods("/transactions/configurations", lambda api: api.internal.configurations),
    _of_pods(f"/{HELLO_PATH}", lambda api: api.replication.hello),
    _of_pods(f"/{APPEND_PATH}", lambda api: api.replication.append),
    _of_pods(f"/{SNAPSHOT_PATH}", lambda api: api.replication.snapshot),
    _of_pods(f"/{SNAPSHOT_PART_PATH}", lambda api: api.replication.snapshot_part),
    _of_pods(f"/{SNAPSHOT_END_PATH}", lambda api: api.replication.snapshot_end),
    _of_pods(f"/{COMPARE_PATH}", lambda api: api.replication.compare),
    _of_pods(f"/{UNLIKE_PATH}", lambda api: api.replication.unlike),
    _of_operator("PUT", "/control/assignment", lambda api: api.internal.assign),
    _of_operator("GET", "/control/replicas", lambda api: api.internal.replicas),
    _of_operator("PUT", "/control/conditions", lambda api: api.internal.take_conditions),
    _of_operator("POST", "/control/accept-data-loss", lambda api: api.internal.accept_loss),
    _of_operator("POST", "/control/retire", lambda api: api.internal.retire),
    *DISCOVERY_ROUTES,
)
