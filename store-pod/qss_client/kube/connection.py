"""Reaches a store on Kubernetes by its name: in a pod by its Service, else by `kubectl`."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from qss_client.http.credentials import Token
from qss_client.http.retries import RetryLimits
from qss_client.http.sync_http import SyncHttp
from qss_client.kube.kubectl import KubernetesPlace, forwarded
from qss_client.store import Store
from qss_core.errors import MalformedRequestError

QUERY_PORT, INTERNAL_PORT = 8080, 8081


def service_url(place: KubernetesPlace, *, tls: bool = False, port: int = QUERY_PORT) -> str:
    """The store's address inside its cluster."""
    return f"{'https' if tls else 'http'}://{place.host}:{port}"


def is_in_cluster() -> bool:
    """Whether this process runs in a pod."""
    return "KUBERNETES_SERVICE_HOST" in os.environ


@dataclass(frozen=True, slots=True, kw_only=True)
class CredentialOptions:
    """The credentials for a store and its authorities; the members are those of `Store`."""

    token: Token | None = None
    token_file: str | Path | None = None
    ca_file: str | Path | None = None

    @property
    def members(self) -> dict[str, Any]:
        return {"token": self.token, "token_file": self.token_file, "ca_file": self.ca_file}

    @property
    def has_token(self) -> bool:
        return self.token is not None or self.token_file is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionOptions:
    """The connection to a store; the members are those of `Store`."""

    urls: tuple[str, ...]
    store: str
    shown: CredentialOptions
    direct: bool = True
    server_hostname: str | None = None

    def http(self) -> SyncHttp:
        """A connection pool with these credentials."""
        return SyncHttp(server_hostname=self.server_hostname, **self.shown.members)

    def client(self, limits: RetryLimits, *, decimal: bool = False, raw: bool = False) -> Store:
        """A client with these credentials; decimal, raw: as in `Store`."""
        return Store(
            self.urls,
            self.store,
            direct=self.direct,
            server_hostname=self.server_hostname,
            limits=limits,
            decimal=decimal,
            raw=raw,
            **self.shown.members,
        )


@contextmanager
def store_on_kubernetes(
    name: str,
    *,
    context: str | None = None,
    service_account: str = "default",
    token: str | None = None,
    token_file: str | Path | None = None,
    ca_file: str | Path | None = None,
    decimal: bool = False,
    limits: RetryLimits = RetryLimits(),  # noqa: B008 it is frozen.
) -> Iterator[Store]:
    """The store NAMESPACE/STORE, usable inside the block.

    In a pod: by the Service, over https if `ca_file` is given, with the pod's own token. Elsewhere:
    by `kubectl port-forward`, with a token of `service_account` if the store asks for one. A given
    `token` or `token_file` is used instead. decimal: as in `Store`.
    """
    shown = CredentialOptions(token=token, token_file=token_file, ca_file=ca_file)
    with (
        connection_to(name, context, service_account, shown) as connection,
        connection.client(limits, decimal=decimal) as store,
    ):
        yield store


@contextmanager
def connection_to(
    name: str,
    context: str | None,
    service_account: str,
    shown: CredentialOptions,
    port: int = QUERY_PORT,
    kubeconfig: str | None = None,
) -> Iterator[ConnectionOptions]:
    """The connection to a port of the store NAMESPACE/STORE, as for `store_on_kubernetes`."""
    place = KubernetesPlace.parse(name, context, kubeconfig)
    is_tls = shown.ca_file is not None
    if is_in_cluster() and context is None and kubeconfig is None:
        url = service_url(place, tls=is_tls, port=port)
        yield ConnectionOptions(urls=(url,), store=place.store, shown=shown)
        return
    with forwarded(place, None if shown.has_token else service_account, port) as found:
        if found.server_hostname is not None and not is_tls:
            raise MalformedRequestError(
                f"store {name} has a certificate: name its authority by ca_file (qss: --ca-file); "
                f"`kubectl get secret` shows the ca.crt of the Secret in spec.access.tlsSecretName"
            )
        yield ConnectionOptions(
            urls=(found.url,),
            store=place.store,
            shown=shown if shown.has_token else replace(shown, token=found.token),
            direct=False,
            server_hostname=found.server_hostname,
        )
