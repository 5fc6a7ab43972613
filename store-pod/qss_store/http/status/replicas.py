"""The status of all pods of a store: replicas, lags, sizes and work under way."""

import asyncio

from aiohttp import web

from qss_core.errors import (
    MalformedBytesError,
    MalformedRequestError,
    PathNotFoundError,
    StoreError,
)
from qss_core.model import PodAddress
from qss_core.queries.parameters import STATUS_PARAMETERS, Scope, parse_parameters, scope_of
from qss_core.version import VERSION
from qss_core.wire.discovery import PodStatus, ReplicaStatus, StoreStatus
from qss_core.wire.messages import decode
from qss_store.http.discovery import lag_of
from qss_store.http.responses import forwarded_headers, json_response
from qss_store.reads.routing.peer_reads import PeerReads, PeerRequest
from qss_store.replicas.pod import Pod
from qss_store.replicas.report import OperatorWord, newest_of

PEER_TIMEOUT_S = 2.0
_UNREADABLE = "pod {} has no status that this version reads"


class ReplicasApi:
    """The answer about the replicas of all pods."""

    def __init__(self, pod: Pod, peers: PeerReads, word: OperatorWord) -> None:
        """`word` has the conditions that the operator told this pod."""
        self._pod = pod
        self._word = word
        self._peers = peers

    async def status(self, request: web.Request) -> web.Response:
        """The status of this pod and, unless the scope is local, of all others."""
        assignment = self._pod.registry.check_store(request.match_info["store"])
        given = parse_parameters(request.rel_url.raw_query_string, STATUS_PARAMETERS)
        found: dict[str, StoreStatus | str] = {self._pod.name: self._own()}
        if scope_of(given) is Scope.ALL:
            others = [one for one in assignment.pods if one.ordinal != self._pod.ordinal]
            asked = local_request(request)
            # `_of_peer` makes a failure the text of its pod: all other pods are still heard.
            answers = await asyncio.gather(*(self._of_peer(one, asked) for one in others))
            found |= {pod.name: answer for pod, answer in zip(others, answers, strict=True)}
        told = {name: one for name, one in found.items() if isinstance(one, StoreStatus)}
        return json_response(
            StoreStatus(
                pods={name: one.pods[name] for name, one in told.items()},
                silent={name: one for name, one in found.items() if isinstance(one, str)},
                conditions=newest_of(one.conditions for one in told.values()),
            )
        )

    async def _of_peer(self, pod: PodAddress, asked: PeerRequest) -> StoreStatus | str:
        """The answer of another pod about itself, or the reason why there is none."""
        try:
            body = await self._peers.read(pod, asked, PEER_TIMEOUT_S, None)
            answer = decode(body, StoreStatus)
        except (PathNotFoundError, MalformedRequestError, MalformedBytesError):
            return _UNREADABLE.format(pod.name)
        except StoreError as error:
            return error.message
        return answer if pod.name in answer.pods else _UNREADABLE.format(pod.name)

    def _own(self) -> StoreStatus:
        pods = {str(self._pod.name): self._status()}
        return StoreStatus(pods=pods, silent={}, conditions=self._word.told())

    def _status(self) -> PodStatus:
        report = self._pod.report()
        by_partition = {one.configuration.partition: one for one in report.replicas}
        replicas: dict[str, ReplicaStatus] = {}
        for number, replica in sorted(self._pod.registry.replicas.items()):
            if replica.role is not None:
                told = by_partition[number]
                lag = lag_of(replica, replica.role)
                members = {name: getattr(lag, name) for name in lag.__struct_fields__}
                replicas[str(number)] = ReplicaStatus(
                    **members,
                    data_bytes=replica.engine.size_bytes(),
                    error=told.error,
                    migration=told.migration,
                    index=told.index,
                )
        return PodStatus(
            ordinal=self._pod.ordinal,
            version=VERSION,
            ready=report.ready,
            is_leaving=report.is_leaving,
            replicas=replicas,
            copies=report.copies,
            volume=report.volume,
            full_volume=report.full_volume,
            reads=self._pod.metrics.requests.reads(),
        )


def local_request(request: web.Request) -> PeerRequest:
    """The same request for another pod, which asks no third one."""
    path = request.rel_url.raw_path
    return PeerRequest(method="GET", path=f"{path}?scope=local", headers=forwarded_headers(request))
