"""Gathers what `qss describe` shows of a store."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from qss_client.cli.options import Place, connection_of, limits_of
from qss_client.http.sync_http import SyncHttp
from qss_client.kube.connection import ConnectionOptions
from qss_client.reads.requests import ReadOptions
from qss_client.store import Store
from qss_client.writes.writers import list_writers
from qss_core.errors import StoreError
from qss_core.model import StoreDefinition
from qss_core.wire.discovery import Lags
from qss_core.wire.messages import StoreMetadata, decode
from qss_core.wire.replica_reports import ReplicasReport
from qss_core.wire.versions import OWN_VERSION
from qss_core.wire.writer_reports import WriterReport

_LAGS_S = 5.0
Replica = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """A store, as its pods tell it; `notes` says what they did not tell, and why."""

    definition: StoreDefinition
    rows: int | None
    is_exact: bool
    data_bytes: int | None  # In the files of all pods: databases and changelogs.
    replicas: tuple[Replica, ...]
    writers: tuple[WriterReport, ...]
    notes: tuple[str, ...]


def describe_store(
    name: str, place: Place, timeout_s: float, options: ReadOptions, *, exact: bool
) -> Description:
    """Asks the pods. Raises StoreError where no pod answers for the store at all.

    exact: count every row; else the number of rows is RocksDB's estimate.
    """
    notes: list[str] = []
    limits = limits_of(timeout_s)
    with connection_of(name, place) as connection:
        with connection.client(limits, raw=True) as client:
            metadata = client.metadata()
            rows = _counted(client, options, notes, exact=exact)
        http = connection.http()
        try:
            replicas = tuple(_replicas(http, connection, metadata, notes))
            data_bytes = _data_bytes(http, connection, metadata, notes)
        finally:
            http.close()
    return Description(
        definition=metadata.definition,
        rows=rows,
        is_exact=exact,
        data_bytes=data_bytes,
        replicas=replicas,
        writers=_writers(name, place, timeout_s, notes),
        notes=tuple(notes),
    )


def _counted(client: Store, options: ReadOptions, notes: list[str], *, exact: bool) -> int | None:
    try:
        return client.count(options, exact=exact)
    except StoreError as error:
        notes.append(f"rows are not counted: {error}")
        return None


def _replicas(
    http: SyncHttp, connection: ConnectionOptions, metadata: StoreMetadata, notes: list[str]
) -> Iterator[Replica]:
    """The replicas by partition, with their lags where their pods tell them."""
    lags: dict[tuple[int, int], dict[str, Any]] = {}
    for told in _lags(http, connection, metadata, notes):
        for number, lag in told.partitions.items():
            lags[int(number), told.ordinal] = {
                "state": lag.state,
                "sequence": lag.sequence,
                "lagOffsets": lag.lag_offsets,
                "lagSeconds": None if lag.lag_seconds is None else round(lag.lag_seconds, 3),
            }
    names = {one.ordinal: one.pod for one in metadata.instances}
    for partition in sorted(metadata.assignment, key=lambda one: one.partition):
        for ordinal in (partition.active, *sorted({*partition.in_sync} - {partition.active})):
            yield {
                "partition": partition.partition,
                "role": "active" if ordinal == partition.active else "standby",
                "pod": names.get(ordinal, str(ordinal)),
                "epoch": partition.epoch,
                **lags.get((partition.partition, ordinal), {}),
            }


def _lags(
    http: SyncHttp, connection: ConnectionOptions, metadata: StoreMetadata, notes: list[str]
) -> Iterator[Lags]:
    """What each pod tells; behind a forwarded port one pod answers for itself alone."""
    path = f"/state/lags/{quote(metadata.definition.name, safe='')}"
    urls: Sequence[str] = [one.query for one in metadata.instances]
    if not connection.direct:
        urls = connection.urls[:1]
        notes.append("the lags are those of one pod: the others are not reached from here")
    for url in urls:
        try:
            yield http.get(url + path, Lags, _LAGS_S)
        except StoreError as error:
            notes.append(f"no lags of {url}: {error}")


def _data_bytes(
    http: SyncHttp, connection: ConnectionOptions, metadata: StoreMetadata, notes: list[str]
) -> int | None:
    """The bytes of all pods' files; None if a pod does not tell its own."""
    if not connection.direct:
        notes.append("the bytes are not shown: the pods are not reached from here")
        return None
    total = 0
    for instance in metadata.instances:
        url = f"{instance.changelog}/control/replicas"
        try:
            answer = http.request("GET", url, headers={**OWN_VERSION}, timeout_s=_LAGS_S)
            volume = decode(answer.body, ReplicasReport).volume
        except StoreError as error:
            notes.append(f"the bytes are not shown: {error}")
            return None
        if volume is None or not volume.data_bytes:
            return None  # It has measured nothing since it got its replicas.
        total += volume.data_bytes
    return total


def _writers(
    name: str, place: Place, timeout_s: float, notes: list[str]
) -> tuple[WriterReport, ...]:
    try:
        with connection_of(name, place, writes=True) as to:
            http = to.http()
            try:
                return list_writers(http, to.urls, to.store, limits_of(timeout_s), direct=to.direct)
            finally:
                http.close()
    except StoreError as error:
        notes.append(f"the writers are not shown: {error}")
        return ()
