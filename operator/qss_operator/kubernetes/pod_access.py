"""How the operator shows the pods who it is, and sees who they are."""

import base64
import binascii
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from qss_core.errors import Retry, StoreError
from qss_core.model import PodAddress
from qss_operator.kubernetes.errors import ForbiddenError
from qss_operator.kubernetes.kinds import SECRETS
from qss_operator.kubernetes.live import ReadApi
from qss_operator.kubernetes.names import StoreNames
from qss_operator.kubernetes.requests import Object

_SECRET_READ_EVERY_S = 60.0
_TOKEN_BYTES_MAX = 64 * 1024


class TlsSecretError(StoreError):
    """The Secret with the store's certificate is missing, or not what it should be."""

    code, http_status, retry = "TLS_SECRET", 409, Retry.NEVER


class PodAccess:
    """The token and the trust for calls to one store's pods (what HttpPods asks)."""

    def __init__(
        self, names: StoreNames, token_file: Path | None, monotonic_s: Callable[[], float]
    ) -> None:
        """`token_file` is a projected token, which the kubelet replaces; it is read each time."""
        self._names = names
        self._token_file = token_file
        self._monotonic_s = monotonic_s
        self._context: ssl.SSLContext | None = None
        self._authority: str | None = None
        self._read_at_s: float | None = None

    def headers(self) -> dict[str, str]:
        """Who calls."""
        if self._token_file is None:
            return {}
        try:
            token = self._token_file.read_bytes()[:_TOKEN_BYTES_MAX].decode().strip()
        except (OSError, UnicodeDecodeError):
            return {}  # The pods say that they do not know who calls.
        return {"Authorization": f"Bearer {token}"} if token else {}

    def tls(self, pod: PodAddress) -> dict[str, Any]:
        """Arguments of a request: pods are called by their IP, and known by their name."""
        if self._context is None:
            return {}
        host = urlsplit(self._names.address(pod.ordinal).changelog).hostname
        return {"ssl": self._context, "server_hostname": host}

    async def refresh(self, api: ReadApi, secret_name: str | None) -> None:
        """Reads the authority of the store's certificate, from time to time.

        Raises TlsSecretError where the Secret is not there, may not be read or has no certificate.
        """
        if secret_name is None:
            self._context = self._authority = self._read_at_s = None
            return
        now_s = self._monotonic_s()
        if self._read_at_s is not None and now_s - self._read_at_s < _SECRET_READ_EVERY_S:
            return
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
        self._read_at_s = now_s


def authority_of(secret: Object | None, name: str) -> str:
    """The PEM of who signed the certificate; a certificate without `ca.crt` vouches for itself."""
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
