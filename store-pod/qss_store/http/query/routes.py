"""The routes of the query port, and of discovery, which the internal port has, too."""

from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from qss_core.queries.parameters import (
    BATCHES_PARAMETERS,
    BODY_PARAMETERS,
    COUNT_PARAMETERS,
    KEY_METADATA_PARAMETERS,
    PARAMETERS,
    POINT_PARAMETERS,
    SCAN_PARAMETERS,
    STATUS_PARAMETERS,
    Parameter,
)
from qss_core.queries.timed_parameters import (
    OF_SESSIONS,
    OF_VERSIONS,
    OF_WINDOWS,
    SESSION_KEY_PARAMETERS,
    SESSION_PARAMETERS,
    VERSION_PARAMETERS,
    WINDOW_KEY_PARAMETERS,
    WINDOW_PARAMETERS,
)
from qss_store.access.rights import Caller
from qss_store.http.console.files import get_file, to_page, to_page_for_persons
from qss_store.http.content_types import ARROW, CSV, JSON, NDJSON, OCTETS
from qss_store.http.discovery import DiscoveryApi
from qss_store.http.query.fast_path import KEY_ROUTES, MANY_ROUTE, RANGE_ROUTES
from qss_store.http.query.openapi.document import DocumentApi
from qss_store.http.query.openapi.schemas import ref
from qss_store.http.query.point import PointApi
from qss_store.http.query.queries import QueryApi
from qss_store.http.query.scans import ScanApi
from qss_store.http.query.timed import TimedApi
from qss_store.http.query.versions import VersionApi
from qss_store.http.routes import NotInDocument, Operation, Route
from qss_store.http.status.batches import BatchesApi
from qss_store.http.status.replicas import ReplicasApi

# OpenAPI 3.1 describes raw bytes by an empty schema.
_BYTES: dict[str, Any] = {}
_TABLES: dict[str, dict[str, Any]] = {ARROW: _BYTES, CSV: {"type": "string"}}
_POINT_HEADERS = {
    "Etag": "Weak; names the state, not the row. For If-None-Match.",
    "Vary": "Accept",
    "Queryable-State-Position": "The position of the state, as a token for positionBound.",
    "Queryable-State-Partition": "The key's partition.",
    "Queryable-State-Served-By": "The pod that answered.",
    "Queryable-State-Sequence": "The partition's sequence: equal ones are equal states.",
}
# Of one partition; CSV has the failure of one, too.
_POINT = (400, 404, 406, 409, 413, 421, 500, 503, 504, 507)
_WHOLE = (400, 404, 406, 503)
_MANY = (400, 404, 406, 408, 413, 415, 503)


class HasDiscovery(Protocol):
    """Handlers of discovery, for readers and for writers."""

    @property
    def discovery(self) -> DiscoveryApi: ...

    @property
    def document(self) -> DocumentApi: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryHandlers:
    discovery: DiscoveryApi
    document: DocumentApi
    points: PointApi
    scans: ScanApi
    timed: TimedApi
    versions: VersionApi
    queries: QueryApi
    replicas: ReplicasApi
    batches: BatchesApi


# Discovery shows no rows.
DISCOVERY_ROUTES: tuple[Route[HasDiscovery], ...] = (
    Route(
        path="/openapi.json",
        caller=Caller.ANYBODY,
        handler=lambda api: api.document.get,
        operation=Operation(
            summary="Returns this OpenAPI document.", answers={JSON: {"type": "object"}}
        ),
    ),
    Route(
        path="/state/stores",
        caller=Caller.CLIENT,
        handler=lambda api: api.discovery.stores,
        operation=Operation(
            summary="Returns the names and types of this pod's stores.",
            answers={JSON: ref("Stores")},
        ),
    ),
    Route(
        path="/state/instances",
        caller=Caller.CLIENT,
        handler=lambda api: api.discovery.all_instances,
        operation=Operation(
            summary="The pods of each store that this pod knows (KIP-67 allMetadata).",
            answers={JSON: ref("Instances")},
        ),
    ),
    Route(
        path="/state/instances/{store}",
        caller=Caller.CLIENT,
        handler=lambda api: api.discovery.instances,
        operation=Operation(
            summary="A store's pods, definition and assignment (KIP-67 allMetadataForStore).",
            answers={JSON: ref("StoreMetadata")},
        ),
    ),
    Route(
        path="/state/instance/{store}/{key}",
        caller=Caller.CLIENT,
        handler=lambda api: api.discovery.instance,
        operation=Operation(
            summary="Returns the pods that have a key's partition (KIP-535 queryMetadataForKey).",
            answers={JSON: ref("KeyMetadata")},
            parameters=KEY_METADATA_PARAMETERS,
            statuses=(400, 404, 413, 503),
        ),
    ),
    Route(
        path="/state/lags/{store}",
        caller=Caller.CLIENT,
        handler=lambda api: api.discovery.lags,
        operation=Operation(
            summary="Returns the lags of this pod's replicas (KIP-535 allLocalStorePartitionLags).",
            answers={JSON: ref("Lags")},
        ),
    ),
)


def _of_times(
    what: str,
    row: str,
    parameters: tuple[tuple[str, ...], tuple[str, ...]],
    own: dict[str, Parameter],
) -> tuple[Route[QueryHandlers], ...]:
    """The routes of windows or sessions, of one key and of all keys."""
    of_key, of_keys = parameters
    described = {**PARAMETERS, **own}
    return (
        Route(
            path=KEY_ROUTES[what],
            caller=Caller.READER,
            handler=lambda api: partial(api.timed.of_key, what),
            operation=Operation(
                summary=f"The {what} of a key; with exact bounds one row, as of a key.",
                answers={
                    JSON: ref(f"{row}s"),
                    NDJSON: ref(f"{row}Line"),
                    **_TABLES,
                    OCTETS: _BYTES,
                },
                parameters=of_key,
                described=described,
                headers=_POINT_HEADERS,
                statuses=(*_POINT, 429),
            ),
        ),
        Route(
            path=RANGE_ROUTES[what],
            caller=Caller.READER,
            handler=lambda api: partial(api.timed.of_keys, what),
            operation=Operation(
                summary=f"The {what} of all keys, or of a range of them.",
                answers={JSON: ref(f"{row}s"), NDJSON: ref(f"{row}Line"), **_TABLES},
                parameters=of_keys,
                described=described,
                statuses=(*_POINT, 429),
            ),
        ),
    )


QUERY_ROUTES: tuple[Route[QueryHandlers], ...] = (
    Route(
        path=KEY_ROUTES["stores"],
        caller=Caller.READER,
        handler=lambda api: api.points.get,
        operation=Operation(
            summary="The row of one key. 304 where If-None-Match names the same state.",
            answers={JSON: ref("PointRow"), OCTETS: _BYTES},
            parameters=POINT_PARAMETERS,
            headers=_POINT_HEADERS,
            statuses=_POINT,
        ),
    ),
    Route(
        path=RANGE_ROUTES["stores"],
        caller=Caller.READER,
        handler=lambda api: api.scans.get,
        operation=Operation(
            summary="A range, a prefix, or all rows; partition by partition, each in key order.",
            answers={JSON: ref("Rows"), NDJSON: ref("Line"), **_TABLES},
            parameters=SCAN_PARAMETERS,
            statuses=(*_POINT, 429),
        ),
    ),
    *DISCOVERY_ROUTES,
    Route(
        path="/state/status/{store}",
        caller=Caller.CLIENT,
        handler=lambda api: api.replicas.status,
        operation=Operation(
            summary="The replicas of all pods: lags, sizes, failures, migrations and copies.",
            answers={JSON: ref("StoreStatus")},
            parameters=STATUS_PARAMETERS,
        ),
    ),
    Route(
        path="/state/batches/{store}",
        caller=Caller.CLIENT,
        handler=lambda api: api.batches.batches,
        operation=Operation(
            summary="The writers, and the newest batches since the coordinator started: up to "
            "1000.",
            answers={JSON: ref("StoreBatches")},
            parameters=BATCHES_PARAMETERS,
            statuses=(400, 404, 409, 503, 504),
        ),
    ),
    *_of_times(
        "windows",
        "WindowRow",
        (WINDOW_KEY_PARAMETERS, WINDOW_PARAMETERS),
        OF_WINDOWS,
    ),
    *_of_times(
        "sessions",
        "SessionRow",
        (SESSION_KEY_PARAMETERS, SESSION_PARAMETERS),
        OF_SESSIONS,
    ),
    Route(
        path="/state/versions/{store}/{key}",
        caller=Caller.READER,
        handler=lambda api: api.versions.of_key,
        operation=Operation(
            summary="The latest version of a key, or that of a time; with from, to, order, limit "
            "or cursor all that were valid in a range.",
            answers={
                JSON: ref("VersionRows"),
                NDJSON: ref("VersionRowLine"),
                **_TABLES,
                OCTETS: _BYTES,
            },
            parameters=VERSION_PARAMETERS,
            described={**PARAMETERS, **OF_VERSIONS},
            headers=_POINT_HEADERS,
            statuses=(*_POINT, 429),
        ),
    ),
    Route(
        path="/state/versions/{store}",
        caller=Caller.READER,
        handler=lambda api: api.versions.of_all,
        operation=Operation(
            summary="Always answers UNKNOWN_QUERY_TYPE: a request for versions must name one key.",
            answers={},
            statuses=(400, 404),
        ),
    ),
    Route(
        path="/state/count/{store}",
        caller=Caller.READER,
        handler=lambda api: api.queries.count,
        operation=Operation(
            summary="Returns the number of keys: an estimate by default, a count with `exact`. "
            "It is null if a partition did not answer.",
            answers={JSON: ref("Count")},
            parameters=COUNT_PARAMETERS,
            statuses=(*_WHOLE, 429),
        ),
    ),
    Route(
        path=MANY_ROUTE,
        caller=Caller.READER,
        method="POST",
        handler=lambda api: api.queries.get_many,
        operation=Operation(
            summary="Returns the rows of many keys, with a status for each key.",
            answers={JSON: ref("BatchAnswer"), ARROW: _BYTES},
            parameters=BODY_PARAMETERS,
            body="BatchRequest",
            statuses=_MANY,
        ),
    ),
    Route(
        path="/state/query/{store}",
        caller=Caller.READER,
        method="POST",
        handler=lambda api: api.queries.query,
        operation=Operation(
            summary="Answers any query of IQv2 (KIP-796), queries that scan in NDJSON.",
            answers={JSON: ref("QueryAnswer"), NDJSON: ref("Line"), **_TABLES},
            parameters=BODY_PARAMETERS,
            body="QueryRequest",
            statuses=(*_MANY, *_POINT, 429),
        ),
    ),
)

# A pod without the console (`spec.access.console`) has none of these routes. A browser loads the
# page before a person has entered a token, and no program calls them.
CONSOLE_ROUTES: tuple[Route[QueryHandlers], ...] = (
    Route(
        path="/",
        caller=Caller.BROWSER,
        handler=lambda _: to_page_for_persons,
        operation=NotInDocument.FOR_BROWSERS,
    ),
    Route(
        path="/console",
        caller=Caller.BROWSER,
        handler=lambda _: to_page,
        operation=NotInDocument.FOR_BROWSERS,
    ),
    Route(
        path="/console/{file}",
        caller=Caller.BROWSER,
        handler=lambda _: get_file,
        operation=NotInDocument.FOR_BROWSERS,
    ),
)
