"""The Kubernetes API: objects as plain dicts, typed errors, deadlines, retries where they are safe.

It caches no answer: each call asks the API server.
"""

import asyncio
import logging
import random  # noqa: TID251 `connect` is a shell: it draws.
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from qss_client.clock import Clock, SystemClock
from qss_core.errors import StoreError
from qss_operator.kubernetes.api.connection import Answer, Connection, find_source
from qss_operator.kubernetes.api.errors import (
    AlreadyExistsError,
    ApiUnavailableError,
    GoneError,
    ListTooLongError,
    NotFoundError,
    UnauthorizedError,
    error_of,
)
from qss_operator.kubernetes.api.kinds import Kind
from qss_operator.kubernetes.api.requests import (
    ApiRequest,
    Object,
    Selectors,
    apply_request,
    create_request,
    delete_request,
    get_request,
    list_request,
    merge_patch_request,
    replace_request,
    token_request,
)
from qss_operator.kubernetes.api.retries import Failure, RetryLimits, pause_before_retry

logger = logging.getLogger(__name__)

_PAGE_LENGTH = 250
_LIST_LENGTH_MAX = 20_000

# The verb of a Role, the plural, the status (or "timeout", "unreachable") and the seconds it took.
RequestObserver = Callable[[str, str, str, float], None]
Objects = list[Object]


class KubernetesApi:
    def __init__(
        self,
        connection: Connection,
        *,
        clock: Clock,
        sleep: Callable[[float], Awaitable[None]],
        chance: Callable[[], float],
        patience: RetryLimits | None = None,
        on_request: RequestObserver | None = None,
    ) -> None:
        """`chance` draws from 0 to 1; `on_request` is called after every try."""
        self._connection = connection
        self.clock = clock
        self.sleep = sleep
        self._chance = chance
        self._patience = patience or RetryLimits()
        self._on_request = on_request

    async def get(self, kind: Kind, namespace: str | None, name: str) -> Object:
        return await self._send(get_request(kind, namespace, name))

    async def find(self, kind: Kind, namespace: str | None, name: str) -> Object | None:
        """The object, or None where the API server answers that the object does not exist."""
        try:
            return await self.get(kind, namespace, name)
        except NotFoundError:
            return None

    async def list(
        self,
        kind: Kind,
        namespace: str | None,
        label_selector: str | None = None,
        *,
        field_selector: str | None = None,
    ) -> Objects:
        """All objects of a namespace, or of all, at one moment. Items lack their kind."""
        selectors = Selectors(labels=label_selector, fields=field_selector)
        try:
            return await self._pages(kind, namespace, selectors)
        except GoneError:
            # The pages took longer than the server keeps the list. A second failure is raised.
            return await self._pages(kind, namespace, selectors)

    async def create(self, kind: Kind, namespace: str | None, body: Object) -> Object:
        """Create the object; returns it as it is stored.

        Raises AlreadyExistsError. If the error has `may_be_own`, an earlier try may have created
        the object: the caller reads it and compares its labels, owner or spec.
        """
        return await self._send(create_request(kind, namespace, body))

    async def create_token(
        self, namespace: str, account: str, audience: str, life_s: int
    ) -> Object:
        """Request a token for a service account; returns the answered TokenRequest."""
        return await self._send(token_request(namespace, account, audience, life_s))

    async def apply(self, kind: Kind, namespace: str | None, body: Object) -> Object:
        """Set these fields by server-side apply, also where another manager owns them.

        Creates the object if it does not exist.

        With `metadata.resourceVersion` and `metadata.uid` only that version is changed, with the
        uid alone only that object. Raises ConflictError otherwise, also after a deletion.
        """
        return await self._send(apply_request(kind, namespace, body))

    async def merge_patch(
        self,
        kind: Kind,
        namespace: str | None,
        name: str,
        patch: Object,
        *,
        subresource: str | None = None,
    ) -> Object:
        """Change these fields; null removes one, a list replaces the whole list.

        Without `metadata.resourceVersion` the last write wins, and the request is not sent again
        after the server may have got it.
        """
        return await self._send(merge_patch_request(kind, namespace, name, patch, subresource))

    async def replace(
        self,
        kind: Kind,
        namespace: str | None,
        name: str,
        body: Object,
        *,
        subresource: str | None = None,
    ) -> Object:
        """Replace the version that `metadata.resourceVersion` names.

        Raises ConflictError where the object has another version. A try without an answer may have
        made that version: read the object again in either case.
        """
        return await self._send(replace_request(kind, namespace, name, body, subresource))

    async def delete(
        self,
        kind: Kind,
        namespace: str | None,
        name: str,
        *,
        uid: str | None = None,
        resource_version: str | None = None,
        propagation: str | None = None,
        grace_period_s: int | None = None,
    ) -> bool:
        """Delete the object; finalizers may delay the end. Returns whether the object existed.

        Raises ConflictError where the object has another uid or version.
        """
        request = delete_request(
            kind,
            namespace,
            name,
            uid=uid,
            resource_version=resource_version,
            propagation=propagation,
            grace_period_s=grace_period_s,
        )
        try:
            await self._send(request)
        except NotFoundError:
            return False
        return True

    async def _pages(self, kind: Kind, namespace: str | None, selectors: Selectors) -> Objects:
        items: Objects = []
        rest: str | None = None
        while True:
            request = list_request(kind, namespace, selectors, _PAGE_LENGTH, rest)
            page = await self._send(request)
            items += page.get("items") or []
            rest = page.get("metadata", {}).get("continue")
            if not rest:
                return items
            if len(items) >= _LIST_LENGTH_MAX:
                raise ListTooLongError(f"{request}: more than {_LIST_LENGTH_MAX} objects")

    async def _send(self, request: ApiRequest) -> Object:
        """Tries until a try succeeds, cannot succeed, or the time is up."""
        deadline_s = self.clock.monotonic_s() + self._patience.total_s
        tries = 0
        is_renewed = False
        while True:
            tries += 1
            try:
                left_s = deadline_s - self.clock.monotonic_s()
                return await self._try(request, max(0.0, min(self._patience.try_s, left_s)))
            except UnauthorizedError:
                # The token is too old. The server did nothing, so any request may be repeated.
                if is_renewed:
                    raise
                is_renewed = True
                await self._renew_credentials(request, deadline_s)
                continue
            except StoreError as error:
                left_s = deadline_s - self.clock.monotonic_s()
                failure = Failure(error=error, tries=tries, left_s=left_s)
                pause_s = pause_before_retry(failure, request, self._patience, self._chance())
                if pause_s is None:
                    raise _last(error, tries) from error.__cause__
                logger.debug("again in %.3f s: %s", pause_s, error.message)
            await self.sleep(pause_s)

    async def _renew_credentials(self, request: ApiRequest, deadline_s: float) -> None:
        """Reads the credentials again; a kubeconfig may run a program for them."""
        try:
            async with asyncio.timeout(max(0.0, deadline_s - self.clock.monotonic_s())):
                await self._connection.renew_credentials()
        except TimeoutError as error:
            message = f"{request}: no new credentials in time"
            raise ApiUnavailableError(message, is_untouched=True) from error

    async def _try(self, request: ApiRequest, timeout_s: float) -> Object:
        started_s = self.clock.monotonic_s()
        code = "unreachable"
        try:
            async with asyncio.timeout(timeout_s):
                answer = await self._connection.exchange(request)
            code = str(answer.status)
        except TimeoutError as error:
            code = "timeout"
            message = f"{request}: no answer within {timeout_s:.1f} s"
            raise ApiUnavailableError(message) from error
        finally:
            if self._on_request is not None:
                seconds = self.clock.monotonic_s() - started_s
                self._on_request(request.verb, request.kind.plural, code, seconds)
        return _object_of(answer, request)


def _object_of(answer: Answer, request: ApiRequest) -> Object:
    if not 200 <= answer.status < 300:
        raise error_of(answer.status, answer.body, request, answer.retry_after)
    try:
        return msgspec.json.decode(answer.body, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        message = f"{request}: the API server's answer is no JSON object: {error}"
        raise ApiUnavailableError(message) from error


def _last(error: StoreError, tries: int) -> StoreError:
    """The error of a call, from the error of its last try."""
    if isinstance(error, AlreadyExistsError) and tries > 1:
        return AlreadyExistsError(error.message, may_be_own=True)
    return error


@asynccontextmanager
async def connect(
    kubeconfig: str | None = None,
    context: str | None = None,
    *,
    patience: RetryLimits | None = None,
    on_request: RequestObserver | None = None,
) -> AsyncIterator[KubernetesApi]:
    """A client of this pod's cluster, or of a kubeconfig's. Raises KubeconfigError without either.

    It sends no request: the first call finds out whether the server answers.
    """
    connection = await Connection.open(find_source(kubeconfig, context))
    try:
        yield KubernetesApi(
            connection,
            clock=SystemClock(),
            sleep=asyncio.sleep,
            chance=random.random,
            patience=patience,
            on_request=on_request,
        )
    finally:
        await connection.close()
