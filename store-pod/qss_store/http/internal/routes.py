"""The routes of the internal port: writers, pods and the operator."""

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


INTERNAL_ROUTES: tuple[Route[InternalHandlers], ...] = (
    Route(
        path=_WRITERS,
        caller=Caller.WRITER,
        handler=lambda api: api.internal.coordinated(api.writers.list_all),
    ),
    Route(
        path=_WRITER,
        caller=Caller.WRITER,
        handler=lambda api: api.of_writer(api.internal.open_writer),
        method="POST",
    ),
    Route(
        path=_WRITER,
        caller=Caller.WRITER,
        handler=lambda api: api.internal.coordinated(api.writers.delete, "force"),
        method="DELETE",
    ),
    Route(
        path=_BATCH + "/chunks/{chunk}",
        caller=Caller.WRITER,
        handler=lambda api: api.internal.stage,
        method="PUT",
    ),
    Route(
        path=_BATCH + "/commit",
        caller=Caller.WRITER,
        handler=lambda api: api.of_writer(api.internal.commit),
        method="POST",
    ),
    Route(
        path=_BATCH + "/abort",
        caller=Caller.WRITER,
        handler=lambda api: api.of_writer(api.internal.abort),
        method="POST",
    ),
    Route(
        path=_WRITER + "/{epoch}/renew",
        caller=Caller.WRITER,
        handler=lambda api: api.of_writer(api.internal.renew),
        method="POST",
    ),
    Route(
        path="/transactions/prepare",
        caller=Caller.POD,
        handler=lambda api: api.internal.prepare,
        method="POST",
    ),
    Route(
        path="/transactions/commit",
        caller=Caller.POD,
        handler=lambda api: api.internal.commit_partitions,
        method="POST",
    ),
    Route(
        path="/transactions/abort",
        caller=Caller.POD,
        handler=lambda api: api.internal.abort_partitions,
        method="POST",
    ),
    Route(
        path="/transactions/resolve",
        caller=Caller.POD,
        handler=lambda api: api.internal.resolve,
        method="POST",
    ),
    Route(
        path="/transactions/sequences",
        caller=Caller.POD,
        handler=lambda api: api.internal.sequences,
        method="POST",
    ),
    Route(
        path="/transactions/configurations",
        caller=Caller.POD,
        handler=lambda api: api.internal.configurations,
        method="POST",
    ),
    Route(
        path=f"/{HELLO_PATH}",
        caller=Caller.POD,
        handler=lambda api: api.replication.hello,
        method="POST",
    ),
    Route(
        path=f"/{APPEND_PATH}",
        caller=Caller.POD,
        handler=lambda api: api.replication.append,
        method="POST",
    ),
    Route(
        path=f"/{SNAPSHOT_PATH}",
        caller=Caller.POD,
        handler=lambda api: api.replication.snapshot,
        method="POST",
    ),
    Route(
        path=f"/{SNAPSHOT_PART_PATH}",
        caller=Caller.POD,
        handler=lambda api: api.replication.snapshot_part,
        method="POST",
    ),
    Route(
        path=f"/{SNAPSHOT_END_PATH}",
        caller=Caller.POD,
        handler=lambda api: api.replication.snapshot_end,
        method="POST",
    ),
    Route(
        path=f"/{COMPARE_PATH}",
        caller=Caller.POD,
        handler=lambda api: api.replication.compare,
        method="POST",
    ),
    Route(
        path=f"/{UNLIKE_PATH}",
        caller=Caller.POD,
        handler=lambda api: api.replication.unlike,
        method="POST",
    ),
    Route(
        path="/control/assignment",
        caller=Caller.OPERATOR,
        handler=lambda api: api.internal.assign,
        method="PUT",
    ),
    Route(
        path="/control/replicas",
        caller=Caller.OPERATOR,
        handler=lambda api: api.internal.replicas,
    ),
    Route(
        path="/control/accept-data-loss",
        caller=Caller.OPERATOR,
        handler=lambda api: api.internal.accept_loss,
        method="POST",
    ),
    Route(
        path="/control/retire",
        caller=Caller.OPERATOR,
        handler=lambda api: api.internal.retire,
        method="POST",
    ),
    *DISCOVERY_ROUTES,
)
