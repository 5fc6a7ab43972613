"""Discovery (KIP-67) and lags (KIP-535), served on the query and internal ports."""

import math

import msgspec
from aiohttp import web

from qss_core.model import PartitionId, Role, StoreAssignment
from qss_core.queries.parameters import KEY_METADATA_PARAMETERS, options_of, parse_parameters
from qss_core.wire.discovery import Instances, Lag, Lags, Stores, StoreSummary
from qss_core.wire.messages import KeyMetadata, StoreMetadata, metadata_of
from qss_store.http.path_keys import key_text
from qss_store.http.responses import json_response
from qss_store.reads.codec import codec_of
from qss_store.reads.plans.keys import key_of_text, partition_of_key
from qss_store.replicas.pod import Pod
from qss_store.replicas.replica import Replica
from qss_store.replicas.report import state_of


class DiscoveryApi:
    def __init__(self, pod: Pod) -> None:
        self._pod = pod

    async def stores(self, request: web.Request) -> web.Response:
        _parse(request)
        definition = self._pod.registry.placed().definition
        summary = StoreSummary(name=definition.name, type=definition.type)
        return json_response(Stores(stores=(summary,)))

    async def all_instances(self, request: web.Request) -> web.Response:
        _parse(request)
        metadata = self._metadata(self._pod.registry.placed())
        return json_response(Instances(stores={metadata.definition.name: metadata.instances}))

    async def instances(self, request: web.Request) -> web.Response:
        """A store's pods, definition and assignment."""
        assignment = self._pod.registry.check_store(request.match_info["store"])
        _parse(request)
        return json_response(self._metadata(assignment))

    async def instance(self, request: web.Request) -> web.Response:
        """The pods that have the partition of a key, whether or not the key exists."""
        assignment = self._pod.registry.check_store(request.match_info["store"])
        options = options_of(_parse(request, KEY_METADATA_PARAMETERS))
        codec = codec_of(assignment.definition)
        key = key_of_text(key_text(request), codec)
        partition = partition_of_key(key, options.partition, codec)
        configuration = self._pod.registry.configuration(partition)
        by_ordinal = {one.ordinal: one for one in self._metadata(assignment).instances}
        return json_response(
            KeyMetadata(
                partition=PartitionId(partition),
                active=by_ordinal[configuration.active],
                standbys=tuple(
                    by_ordinal[ordinal]
                    for ordinal in sorted(configuration.in_sync)
                    if ordinal != configuration.active
                ),
            )
        )

    async def lags(self, request: web.Request) -> web.Response:
        """The lags of this pod's replicas."""
        self._pod.registry.check_store(request.match_info["store"])
        _parse(request)
        partitions = {
            str(number): lag_of(replica, replica.role)
            for number, replica in sorted(self._pod.registry.replicas.items())
            if replica.role is not None
        }
        return json_response(
            Lags(pod=self._pod.name, ordinal=self._pod.ordinal, partitions=partitions)
        )

    def _metadata(self, assignment: StoreAssignment) -> StoreMetadata:
        """The metadata with the newest configurations: a replica may know a later epoch."""
        newest = tuple(
            self._pod.registry.configuration(number)
            for number in range(assignment.definition.partitions)
        )
        return metadata_of(msgspec.structs.replace(assignment, partitions=newest))


def _parse(request: web.Request, allowed: tuple[str, ...] = ()) -> dict[str, str]:
    return parse_parameters(request.rel_url.raw_query_string, allowed)


def lag_of(replica: Replica, role: Role) -> Lag:
    """The lag of a replica that has this role."""
    log, view, stale_s = replica.log, replica.view, replica.following.stale_s()
    return Lag(
        role=role,
        epoch=log.configuration.epoch,
        state=state_of(replica),
        applied_offset=log.applied,
        end_offset=log.end,
        lag_offsets=max(0, log.end - log.applied),
        lag_seconds=stale_s if math.isfinite(stale_s) else None,
        sequence=view.sequence if view else None,
        position=view.position.to_json() if view else None,
        stream_time=view.stream_time if view else None,
    )
