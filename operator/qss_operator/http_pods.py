"""The pods' control API over HTTP (the port Pods)."""

import logging

import aiohttp

from qss_core.errors import StoreError, UnreachableError
from qss_core.model import PodAddress, StoreAssignment
from qss_core.wire import Problem, ReplicasReport, decode, encode, error_of

logger = logging.getLogger(__name__)

_REPORT_TIMEOUT_S = 2.0
_ASSIGN_TIMEOUT_S = 30.0  # A pod opens its replicas before it answers.


class HttpPods:
    """Calls pods at their changelog address."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self._session = session

    async def report(self, pod: PodAddress) -> ReplicasReport | None:
        """What a pod holds; None if it does not answer in time."""
        try:
            return await self._call("GET", f"{pod.changelog}/control/replicas", _REPORT_TIMEOUT_S)
        except StoreError as error:
            logger.debug("%s does not report: %s", pod.name, error.message)
            return None

    async def assign(self, pod: PodAddress, assignment: StoreAssignment) -> ReplicasReport:
        """Give a pod its assignment; raises a StoreError if it refuses or does not answer."""
        url = f"{pod.changelog}/control/assignment"
        return await self._call("PUT", url, _ASSIGN_TIMEOUT_S, encode(assignment))

    async def _call(
        self, method: str, url: str, timeout_s: float, body: bytes | None = None
    ) -> ReplicasReport:
        timeout = aiohttp.ClientTimeout(total=timeout_s)
        headers = {"Content-Type": "application/json"} if body is not None else {}
        try:
            async with self._session.request(
                method, url, data=body, headers=headers, timeout=timeout
            ) as response:
                answer = await response.read()
                if response.status != 200:
                    raise _refusal(url, response.status, answer)
        except (TimeoutError, aiohttp.ClientError, OSError) as error:
            raise UnreachableError(f"{url}: {error or type(error).__name__}") from error
        return decode(answer, ReplicasReport)


def _refusal(url: str, status: int, answer: bytes) -> StoreError:
    try:
        return error_of(decode(answer, Problem))
    except StoreError:
        return UnreachableError(f"{url} answered {status}")
