"""The operator's tokens for the pods of a store, and the check of the pods' certificates."""

import base64
import binascii
import logging
import ssl
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from qss_client.clock import Clock
from qss_core.audiences import own_audience
from qss_core.errors import Retry, StoreError
from qss_core.model import PodAddress
from qss_operator.kubernetes.access.audiences import audiences_of, is_pod_of, template_of
from qss_operator.kubernetes.access.tokens import StoreTokens
from qss_operator.kubernetes.api.errors import ForbiddenError
from qss_operator.kubernetes.api.kinds import SECRETS
from qss_operator.kubernetes.api.read_cache import ReadApi
from qss_operator.kubernetes.api.requests import Object
from qss_operator.kubernetes.names import StoreNames

logger = logging.getLogger(__name__)

_SECRET_READ_EVERY_S = 60.0
_SECRET_RETRY_EVERY_S = 10.0  # While it cannot be used.


class TlsSecretError(StoreError):
    """The Secret with the store's certificate is missing or invalid."""

    code, http_status, retry = "TLS_SECRET", 409, Retry.NEVER


class PodAccess:
    """The tokens and certificates for calls to one store's pods (used by HttpPods).

    A pod of the store's StatefulSet gets a token for the store's own audience. A pod made by an
    older operator gets a token for `common`, while the StatefulSet names that audience and the
    store checks its callers. Other pods get no token, whatever their labels.

    `secret_error` is set while the Secret cannot be used and the authority that was read last is.
    """

    def __init__(
        self,
        names: StoreNames,
        tokens: StoreTokens,
        common: str,
        clock: Clock,
    ) -> None:
        self._names = names
        self._tokens = tokens
        self._own = own_audience(names.namespace, names.store)
        self._common = common
        self._clock = clock
        self._takes: dict[str, str] = {}  # By pod.
        # Uids of pods: while a StatefulSet is replaced for larger volumes, its pods have no owner.
        self._known: set[str] = set()
        self._names_common = False
        self._context: ssl.SSLContext | None = None
        self._authority: str | None = None
        self._read_at_s: float | None = None
        self.secret_error: TlsSecretError | None = None

    def headers(self, pod: PodAddress) -> dict[str, str]:
        """The token's header; empty if the pod takes none, or one that is not of its store."""
        audience = self._takes.get(pod.name)
        token = None if audience is None else self._tokens.of(audience)
        return {} if token is None else {"Authorization": f"Bearer {token}"}

    def saw(self, pods: Mapping[str, Object], stateful_set: Object | None) -> None:
        """Takes the present pods by name; their command lines have the audiences."""
        if stateful_set is not None:
            template = template_of(stateful_set)
            self._names_common = template is not None and self._common in (
                template.takes,
                template.shows,
                template.peers,
            )
        own = {
            name: pod
            for name, pod in pods.items()
            if pod["metadata"]["uid"] in self._known
            or (stateful_set is not None and is_pod_of(pod, stateful_set))
        }
        self._known = {pod["metadata"]["uid"] for pod in own.values()}
        found = {name: audiences_of(pod.get("spec") or {}) for name, pod in own.items()}
        allowed = {self._own, self._common} if self._names_common else {self._own}
        self._takes = {
            name: one.takes
            for name, one in found.items()
            if one is not None and one.takes in allowed
        }

    def tls(self, pod: PodAddress) -> dict[str, Any]:
        """Arguments of a request: a pod is called by its IP, and its certificate has its name."""
        if self._context is None:
            return {}
        host = urlsplit(self._names.address(pod.ordinal).changelog).hostname
        return {"ssl": self._context, "server_hostname": host}

    async def refresh_tokens(
        self,
        pods: Mapping[str, Object],
        stateful_set: Object | None,
        *,
        checks_callers: bool,
    ) -> None:
        """Requests the tokens for these pods. Raises TokenRequestError.

        Whatever a pod's command line says, it gets no token that another store accepts, except the
        common one, which stores accept until their pods were restarted.
        """
        self.saw(pods, stateful_set)
        taken = set(self._takes.values())
        wanted = {*taken, self._own} if checks_callers else taken - {self._common}
        await self._tokens.refresh(wanted)

    async def refresh(self, api: ReadApi, secret_name: str | None) -> None:
        """Reads the authority of the store's certificate from time to time.

        Raises TlsSecretError if the Secret is missing, may not be read, or has no certificate, and
        no authority was read before.
        """
        if secret_name is None:
            self._context = self._authority = self._read_at_s = self.secret_error = None
            return
        now_s = self._clock.monotonic_s()
        every_s = _SECRET_READ_EVERY_S if self.secret_error is None else _SECRET_RETRY_EVERY_S
        if self._read_at_s is not None and now_s - self._read_at_s < every_s:
            return
        try:
            await self._read(api, secret_name)
        except TlsSecretError as error:
            if self._context is None:
                raise
            self._keep_last(error)
        else:
            if self.secret_error is not None:
                logger.info("%s: the Secret %s can be used again", self._names.store, secret_name)
            self.secret_error = None
        self._read_at_s = now_s

    async def _read(self, api: ReadApi, secret_name: str) -> None:
        """Takes the authority in the Secret. Raises TlsSecretError."""
        try:
            found = await api.find(SECRETS, self._names.namespace, secret_name)
        except ForbiddenError as error:
            raise TlsSecretError(
                f"the operator may not read the Secret {secret_name}: add {secret_name} to the "
                f"chart's value tls.secretNames, and upgrade the release ({error.message})"
            ) from error
        authority = authority_of(found, secret_name)
        if authority != self._authority:
            self._context = _context_of(authority, secret_name)
            self._authority = authority

    def _keep_last(self, error: TlsSecretError) -> None:
        """Goes on with the last authority: rounds, and so failovers, need no newer one."""
        if self.secret_error is None or self.secret_error.message != error.message:
            text = "%s: %s; the pods are checked by the certificate authority that was read last"
            logger.warning(text, self._names.store, error.message)
        self.secret_error = error


def authority_of(secret: Object | None, name: str) -> str:
    """The authority's PEM; without `ca.crt` the certificate is its own authority."""
    if secret is None:
        raise TlsSecretError(
            f"the Secret {name} does not exist: make it with tls.crt, tls.key and ca.crt"
        )
    data = secret.get("data") or {}
    missing = [key for key in ("tls.crt", "tls.key") if not data.get(key)]
    if missing:
        raise TlsSecretError(f"the Secret {name} has no {' and no '.join(missing)}")
    try:
        return base64.b64decode(data.get("ca.crt") or data["tls.crt"], validate=True).decode()
    except (binascii.Error, UnicodeDecodeError) as error:
        raise TlsSecretError(f"the Secret {name} holds no PEM: {error}") from error


def _context_of(authority: str, name: str) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cadata=authority)
    except (ssl.SSLError, ValueError) as error:
        raise TlsSecretError(f"the Secret {name} holds no certificate: {error}") from error
