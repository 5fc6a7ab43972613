"""The pods' control API over HTTP (the port Pods)."""

import asyncio
import logging
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Protocol

import aiohttp
from msgspec.structs import replace

from qss_client.clock import Clock
from qss_core.errors import StoreError, UnreachableError
from qss_core.model import PodAddress, PodName, StoreAssignment
from qss_core.version import MESSAGE_VERSION
from qss_core.wire.conditions import TellConditionsRequest
from qss_core.wire.losses import AcceptLossRequest
from qss_core.wire.messages import GENERATION, INCARNATION, RESOURCE_UID, encode
from qss_core.wire.replica_reports import ReplicasReport
from qss_core.wire.retirement import RetireRequest
from qss_core.wire.versions import OWN_VERSION, for_version, version_in
from qss_operator.pod_answers import (
    AnswerSizes,
    Grow,
    PodAnswerError,
    read_answer,
    refusal_of,
    report_of,
    short,
    with_version,
)

logger = logging.getLogger(__name__)

_REPORT_TIMEOUT_S = 2.0
_CONNECT_TIMEOUT_S = 1.0  # At the address of a pod that is gone nobody refuses a connection.
# A round waits no longer than this for a pod that was silent for a while. The request goes on, and
# a later round takes its answer: the pod may only be slow.
_SILENT_S, _SILENT_WAIT_S = 3.0, 0.3
_TELL_TIMEOUT_S = 1.0
_ASSIGN_TIMEOUT_S = 30.0  # A pod opens its replicas before it answers.


class UntrustedError(UnreachableError):
    """The certificate of a pod does not prove that it is the called pod."""


class Access(Protocol):
    """The credentials of the operator, and its check of a pod's certificate."""

    def headers(self, pod: PodAddress) -> dict[str, str]:
        """The headers of every request to this pod."""
        ...

    def tls(self, pod: PodAddress) -> dict[str, Any]:
        """Arguments of aiohttp's request: `ssl`, `server_hostname`."""
        ...


class OpenAccess:
    """Access to the pods of this machine, which check no token and have no certificate."""

    def headers(self, pod: PodAddress) -> dict[str, str]:  # noqa: ARG002 the protocol's signature.
        return {}

    def tls(self, pod: PodAddress) -> dict[str, Any]:  # noqa: ARG002 the protocol's signature.
        return {}


class HttpPods:
    """Calls pods at their changelog address."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        access: Access | None = None,
        *,
        clock: Clock,
        silent_after_s: float | None = None,
    ) -> None:
        """A pod that accepts requests and answers none for `silent_after_s` is reported.

        With None it is not reported: on Kubernetes the kubelet finds such pods.
        """
        self._session = session
        self._access = access or OpenAccess()
        self._silent_after_s = silent_after_s
        self._clock = clock
        self._silent_since_s: dict[PodName, float] = {}
        self._asked: dict[PodName, tuple[PodAddress, asyncio.Task[ReplicasReport | None]]] = {}
        self._refusals: dict[PodName, str] = {}
        self._versions: dict[PodName, int] = {}  # The message version of each pod's last answer.
        self._sizes = AnswerSizes()

    async def report(self, pod: PodAddress) -> ReplicasReport | None:
        """The replicas of a pod; None if the pod does not answer in time, or refuses."""
        address, asked = self._asked.get(pod.name, (None, None))
        # An answer that came after its round may be of an earlier process.
        if asked is None or asked.done() or address != pod:
            asked = asyncio.create_task(self._report(pod), name=f"report-{pod.name}")
            self._asked[pod.name] = pod, asked
        since_s = self._silent_since_s.get(pod.name)
        is_silent = since_s is not None and self._clock.monotonic_s() - since_s >= _SILENT_S
        done, _ = await asyncio.wait([asked], timeout=_SILENT_WAIT_S if is_silent else None)
        if not done:
            return None
        self._asked.pop(pod.name, None)
        return asked.result()

    async def _report(self, pod: PodAddress) -> ReplicasReport | None:
        asked_at_s = self._clock.monotonic_s()
        try:
            report = await self.call(pod, "GET", "/control/replicas", _REPORT_TIMEOUT_S)
        except StoreError as error:
            self._note(pod, error, asked_at_s)
            return None
        self._refusals.pop(pod.name, None)
        self._silent_since_s.pop(pod.name, None)
        return report

    def refusal(self, pod: PodAddress) -> str | None:
        """The reason why a reached pod did not report the last time; None otherwise."""
        return self._refusals.get(pod.name)

    def _note(self, pod: PodAddress, error: StoreError, asked_at_s: float) -> None:
        was_reached = not isinstance(error, UnreachableError) or isinstance(error, UntrustedError)
        told = f"does not answer the operator: {error.message}" if was_reached else None
        if isinstance(error.__cause__, TimeoutError):
            told = told or self._silence_of(pod, asked_at_s)
        else:
            self._silent_since_s.pop(pod.name, None)
        level = logging.WARNING if told != self._refusals.get(pod.name) else logging.DEBUG
        logger.log(level, "%s does not report: %s", pod.name, error.message)
        if told is None:
            self._refusals.pop(pod.name, None)
        else:
            self._refusals[pod.name] = told

    def _silence_of(self, pod: PodAddress, asked_at_s: float) -> str | None:
        """The message about a pod that accepts requests and does not answer them."""
        since_s = self._silent_since_s.setdefault(pod.name, asked_at_s)
        limit_s = self._silent_after_s
        if limit_s is None or self._clock.monotonic_s() - since_s < limit_s:
            return None
        return (
            f"runs and has not answered for {limit_s:.0f} s: it is stopped (kill -CONT lets it go "
            "on) or has too much to do; only partitions that have a standby are served meanwhile"
        )

    async def assign(self, pod: PodAddress, assignment: StoreAssignment) -> ReplicasReport:
        """Give a pod its assignment; raises a StoreError if it refuses or does not answer."""
        body, told = _split(assignment, self._version_of(pod))
        path = "/control/assignment"
        return await self.call(pod, "PUT", path, _ASSIGN_TIMEOUT_S, body, told)

    async def accept_loss(self, pod: PodAddress, request: AcceptLossRequest) -> ReplicasReport:
        """Let a partition continue without its lost rows; raises a StoreError as `assign` does."""
        path = "/control/accept-data-loss"
        if request.assignment is not None:
            request = replace(request, assignment=request.assignment.plain)
        request = for_version(request, self._version_of(pod))
        return await self.call(pod, "POST", path, _ASSIGN_TIMEOUT_S, encode(request))

    def _version_of(self, pod: PodAddress) -> int:
        return self._versions.get(pod.name, MESSAGE_VERSION)

    async def retire(self, pod: PodAddress, request: RetireRequest) -> ReplicasReport:
        """Have a pod delete a replica; raises a StoreError as `assign` does."""
        path = "/control/retire"
        return await self.call(pod, "POST", path, _ASSIGN_TIMEOUT_S, encode(request))

    async def tell_conditions(self, pod: PodAddress, request: TellConditionsRequest) -> None:
        """Tell a pod the store's conditions; raises a StoreError as `assign` does."""
        path = "/control/conditions"
        await self.call(pod, "PUT", path, _TELL_TIMEOUT_S, encode(request))

    async def call(
        self,
        pod: PodAddress,
        method: str,
        path: str,
        timeout_s: float,
        body: bytes | None = None,
        more: Mapping[str, str] = MappingProxyType({}),
    ) -> ReplicasReport:
        headers = {
            **self._access.headers(pod),
            "Accept-Encoding": "identity",
            **OWN_VERSION,
            **more,
        }
        if body is not None:
            headers["Content-Type"] = "application/json"
        options: dict[str, Any] = {
            "data": body,
            "headers": headers,
            "timeout": aiohttp.ClientTimeout(total=timeout_s, sock_connect=_CONNECT_TIMEOUT_S),
            **self._access.tls(pod),
        }
        with self._sizes.asking(pod.name) as grow:
            answer, version = await self._answer(method, f"{pod.changelog}{path}", options, grow)
            report = with_version(report_of(answer), version)
        self._versions[pod.name] = report.message_version
        return report

    async def _answer(
        self, method: str, url: str, options: dict[str, Any], grow: Grow
    ) -> tuple[bytes, int]:
        """The body of a 200, and its version; raises a StoreError for any other answer."""
        try:
            async with self._session.request(
                method, url, **options, allow_redirects=False, auto_decompress=False
            ) as response:
                answer = await self._body(response, grow)
                if response.status != 200:
                    said = f"{url} answered {response.status}"
                    raise refusal_of(answer) or UnreachableError(said)
        except (aiohttp.ClientSSLError, aiohttp.ClientConnectorCertificateError) as error:
            raise UntrustedError(f"its certificate was refused: {short(str(error))}") from error
        except (TimeoutError, aiohttp.ClientError, OSError) as error:
            why = short(str(error)) or type(error).__name__
            raise UnreachableError(f"{url}: {why}") from error
        return answer, version_in(response.headers)

    async def _body(self, response: aiohttp.ClientResponse, grow: Grow) -> bytes:
        packing, parts = response.headers.get("Content-Encoding"), response.content.iter_any()
        try:
            return await read_answer(response.status, packing, parts, grow)
        except PodAnswerError:
            response.close()  # The rest is not read: no other request can use this connection.
            raise


def _split(assignment: StoreAssignment, version: int) -> tuple[bytes, dict[str, str]]:
    """The body of an assignment as a version of pods reads it, and headers for the rest."""
    headers = {
        RESOURCE_UID: assignment.resource_uid,
        INCARNATION: assignment.incarnation,
        GENERATION: str(assignment.generation),
    }
    return encode(for_version(assignment.plain, version)), headers
