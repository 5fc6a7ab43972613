"""Gathers the facts that `qss describe` shows of a store."""

from collections.abc import Iterator
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
from qss_core.wire.discovery import Lag, StoreStatus
from qss_core.wire.messages import StoreMetadata
from qss_core.wire.writer_reports import WriterReport

_STATUS_S = 5.0
Replica = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """A store, as its pods tell it; `notes` names the facts that pods did not tell, and why."""

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
            status = _status(http, connection, metadata, notes)
        finally:
            http.close()
    return Description(
        definition=metadata.definition,
        rows=rows,
        is_exact=exact,
        data_bytes=_data_bytes(status),
        replicas=tuple(_replicas(metadata, status)),
        writers=_writers(name, place, timeout_s, notes),
        notes=tuple(notes),
    )


def _counted(client: Store, options: ReadOptions, notes: list[str], *, exact: bool) -> int | None:
    try:
        return client.count(options, exact=exact)
    except StoreError as error:
        notes.append(f"rows are not counted: {error}")
        return None


def _status(
    http: SyncHttp, connection: ConnectionOptions, metadata: StoreMetadata, notes: list[str]
) -> StoreStatus | None:
    """The status of all pods, by the first pod that reports it; None without any."""
    path = f"/state/status/{quote(metadata.definition.name, safe='')}"
    refused: list[str] = []
    for url in connection.urls:
        try:
            status = http.get(url + path, StoreStatus, _STATUS_S)
        except StoreError as error:
            refused.append(f"the replicas' lags and bytes are not shown: {error}")
        else:
            notes += (f"no lags of {pod}: {why}" for pod, why in sorted(status.silent.items()))
            return status
    notes += refused[:1]
    return None


def _replicas(metadata: StoreMetadata, status: StoreStatus | None) -> Iterator[Replica]:
    """The replicas by partition, with their lags where their pods tell them."""
    pods = {one.ordinal: one for one in status.pods.values()} if status is not None else {}
    names = {one.ordinal: one.pod for one in metadata.instances}
    for partition in sorted(metadata.assignment, key=lambda one: one.partition):
        for ordinal in (partition.active, *sorted({*partition.in_sync} - {partition.active})):
            pod = pods.get(ordinal)
            lag = None if pod is None else pod.replicas.get(str(partition.partition))
            yield {
                "partition": partition.partition,
                "role": "active" if ordinal == partition.active else "standby",
                "pod": names.get(ordinal, str(ordinal)),
                "epoch": partition.epoch,
                **({} if lag is None else _lag_of(lag)),
            }


def _lag_of(replica: Lag) -> Replica:
    return {
        "state": replica.state,
        "sequence": replica.sequence,
        "lagOffsets": replica.lag_offsets,
        "lagSeconds": None if replica.lag_seconds is None else round(replica.lag_seconds, 3),
    }


def _data_bytes(status: StoreStatus | None) -> int | None:
    """The bytes of all pods' files; None if a pod does not tell its own."""
    if status is None or status.silent:
        return None
    volumes = [one.volume for one in status.pods.values()]
    # A pod has measured nothing since it got its replicas.
    if any(volume is None or not volume.data_bytes for volume in volumes):
        return None
    return sum(volume.data_bytes for volume in volumes if volume is not None)


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
