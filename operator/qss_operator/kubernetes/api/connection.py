"""One API server: its address, its credentials and connections. Bytes in, bytes out.

Only this module uses the library `kubernetes`, and of it only the code that loads the configuration
and sends requests: its models are slow, and its retries repeat requests that must not be repeated.
"""

import os
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import yaml
from kubernetes.aio.client import ApiClient, Configuration
from kubernetes.aio.config import ConfigException, load_kube_config
from kubernetes.aio.config.incluster_config import InClusterConfigLoader

from qss_client.http.bounded import read_bounded
from qss_core.errors import StoreError
from qss_operator.kubernetes.api.errors import ApiUnavailableError, RefusedError
from qss_operator.kubernetes.api.requests import ApiRequest

_SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_CONNECTIONS_MAX = 32
_ANSWER_BYTES_MAX = 64 * 1024 * 1024
_USER_AGENT = "queryablestate-operator"
# The caller sets the deadline; aiohttp's own would be five minutes.
_NO_TIMEOUT = aiohttp.ClientTimeout(total=None)


class KubeconfigError(StoreError):
    """No cluster is configured, or its configuration cannot be read."""

    code, http_status = "KUBECONFIG", 400


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The API server's answer with any status."""

    status: int
    retry_after: str | None
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The place of the credentials: this pod, or a kubeconfig and one of its contexts."""

    kubeconfig: str | None
    context: str | None = None
    service_account: Path = _SERVICE_ACCOUNT
    environment: Mapping[str, str]

    async def load_into(self, configuration: Any) -> None:
        """Read the credentials; call it again when tokens have changed."""
        try:
            if self.kubeconfig is None:
                InClusterConfigLoader(
                    token_filename=str(self.service_account / "token"),
                    cert_filename=str(self.service_account / "ca.crt"),
                    environ=self.environment,
                ).load_and_set(configuration)
                return
            await load_kube_config(
                self.kubeconfig,
                context=self.context,
                client_configuration=configuration,
                persist_config=False,
            )
        except (ConfigException, OSError, yaml.YAMLError, TypeError, ValueError) as error:
            # TypeError and ValueError: the loader assumes the shape of what it reads.
            where = self.kubeconfig or f"the service account in {self.service_account}"
            raise KubeconfigError(f"{where} gives no access to a cluster: {error}") from error


def find_source(
    kubeconfig: str | None, context: str | None, environment: Mapping[str, str] = os.environ
) -> Source:
    """The named kubeconfig or context; else this pod's account; else the user's kubeconfig."""
    if kubeconfig is None and context is None and "KUBERNETES_SERVICE_HOST" in environment:
        return Source(kubeconfig=None, environment=environment)
    # The client reads the variable once, when it is imported.
    paths = kubeconfig or environment.get("KUBECONFIG") or str(Path.home() / ".kube" / "config")
    if not any(Path(path).expanduser().exists() for path in paths.split(os.pathsep) if path):
        raise KubeconfigError(f"no kubeconfig at {paths}, and this is no pod of a cluster")
    return Source(kubeconfig=paths, context=context, environment=environment)


class Connection:
    """Sends requests with the credentials of its source."""

    def __init__(self, configuration: Any, load: Callable[[Any], Awaitable[None]]) -> None:
        """Takes a loaded configuration; call it on the event loop that will use the client."""
        self._configuration = configuration
        self._load = load
        self._client = ApiClient(configuration)

    @classmethod
    async def open(cls, source: Source) -> "Connection":
        """Read the credentials; nothing is sent yet."""
        configuration = Configuration()
        configuration.connection_pool_maxsize = _CONNECTIONS_MAX
        configuration.client_session_kwargs = {
            # A cluster's own API server is never behind the proxy that its pods may have to use.
            "trust_env": source.kubeconfig is not None,
            "middlewares": (_send_once,),
        }
        await source.load_into(configuration)
        try:
            return cls(configuration, source.load_into)
        except OSError as error:
            message = f"the certificates of {configuration.host} cannot be used: {error}"
            raise KubeconfigError(message) from error

    async def close(self) -> None:
        await self._client.close()

    async def renew_credentials(self) -> None:
        """Read the credentials again, after the server refused them."""
        await self._load(self._configuration)

    async def exchange(self, request: ApiRequest) -> Answer:
        """Send once, with no deadline; raises ApiUnavailableError without a whole answer."""
        headers = await self._headers(request)
        try:
            raw = await self._client.rest_client.request(
                request.method,
                self._configuration.host + request.url_path,
                headers=headers,
                body=request.body,
                _request_timeout=_NO_TIMEOUT,
            )
            async with raw.response as response:
                body = await _read(response, request)
        except aiohttp.ClientConnectorError as error:
            message = f"{request}: the API server was not reached: {error}"
            raise ApiUnavailableError(message, is_untouched=True) from error
        except (aiohttp.ClientError, OSError) as error:
            what = str(error) or type(error).__name__
            raise ApiUnavailableError(f"{request}: the connection broke: {what}") from error
        retry_after = response.headers.get("Retry-After")
        return Answer(status=response.status, retry_after=retry_after, body=body)

    async def _headers(self, request: ApiRequest) -> dict[str, str]:
        headers = {"Accept": "application/json", "User-Agent": _USER_AGENT}
        if request.content_type is not None:
            headers["Content-Type"] = request.content_type
        try:
            token = await self._configuration.get_api_key_with_prefix("BearerToken")
        except (ConfigException, OSError) as error:
            # A token that is being replaced, for a moment empty or missing.
            message = f"{request}: the token cannot be read: {error}"
            raise ApiUnavailableError(message, is_untouched=True) from error
        if token:
            # A file ends with a newline, a header must not.
            headers["Authorization"] = token.strip()
        return headers


async def _send_once(
    request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
) -> aiohttp.ClientResponse:
    """Keeps the client from sending GET, PUT and DELETE again by itself on a broken connection.

    A deletion that names no uid would hit a namesake. The client knows only the errors below as
    reasons to send again.
    """
    try:
        return await handler(request)
    except aiohttp.ClientConnectorError:
        raise  # The request was not sent at all.
    except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as error:
        raise aiohttp.ClientConnectionError(str(error)) from error


async def _read(response: aiohttp.ClientResponse, request: ApiRequest) -> bytes:
    def too_large() -> RefusedError:
        return RefusedError(f"{request}: the answer is larger than {_ANSWER_BYTES_MAX} bytes")

    return await read_bounded(response.content.iter_any(), _ANSWER_BYTES_MAX, too_large)
