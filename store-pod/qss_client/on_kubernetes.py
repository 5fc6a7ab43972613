"""A store by its name on Kubernetes: in a pod by its Service, elsewhere through `kubectl`."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from qss_client.credentials import Token
from qss_client.http_sync import SyncHttp
from qss_client.kubectl import KubernetesPlace, forwarded
from qss_client.routing import RetryLimits
from qss_client.store import Store
from qss_core.errors import MalformedRequestError

QUERY_PORT = 8080


def service_url(place: KubernetesPlace, *, tls: bool = False) -> str:
    """The store's address inside of its cluster."""
    return f"{'https' if tls else 'http'}://{place.host}:{QUERY_PORT}"


def is_in_cluster(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether this runs in a pod."""
    return "KUBERNETES_SERVICE_HOST" in environment


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """How a store is reached and what it is shown; the members are those of `Store`."""

    url: str
    store: str
    token: Token | None = None
    token_file: str | Path | None = None
    ca_file: str | Path | None = None
    direct: bool = True
    server_hostname: str | None = None

    def http(self) -> SyncHttp:
        """Connections that are made that way."""
        return SyncHttp(
            self.token,
            token_file=self.token_file,
            ca_file=self.ca_file,
            server_hostname=self.server_hostname,
        )

    def client(self, limits: RetryLimits) -> Store:
        """A client that asks that way."""
        return Store(
            self.url,
            self.store,
            token=self.token,
            token_file=self.token_file,
            ca_file=self.ca_file,
            direct=self.direct,
            server_hostname=self.server_hostname,
            limits=limits,
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
    limits: RetryLimits = RetryLimits(),  # noqa: B008 it is frozen.
) -> Iterator[Store]:
    """The store NAMESPACE/STORE, for as long as the block runs; arguments as of `way_to`."""
    with (
        way_to(
            name,
            context=context,
            service_account=service_account,
            token=token,
            token_file=token_file,
            ca_file=ca_file,
        ) as way,
        way.client(limits) as store,
    ):
        yield store


@contextmanager
def way_to(
    name: str,
    *,
    context: str | None = None,
    service_account: str = "default",
    token: str | None = None,
    token_file: str | Path | None = None,
    ca_file: str | Path | None = None,
) -> Iterator[Way]:
    """The way to the store NAMESPACE/STORE, for as long as the block runs.

    In a pod: by the Service, over https where `ca_file` is given, with the pod's own token.
    Elsewhere: by `kubectl port-forward`, with a token of `service_account` where one is needed. A
    `token` or a `token_file` that is given is shown instead.
    """
    place = KubernetesPlace.parse(name, context)
    if is_in_cluster() and context is None:
        yield Way(
            url=service_url(place, tls=ca_file is not None),
            store=place.store,
            token=token,
            token_file=token_file,
            ca_file=ca_file,
        )
        return
    is_given = token is not None or token_file is not None
    with forwarded(place, None if is_given else service_account) as found:
        if found.server_hostname is not None and ca_file is None:
            raise MalformedRequestError(
                f"store {name} has a certificate: name its authority by ca_file (qss: --ca-file); "
                f"`kubectl get secret` shows the ca.crt of the Secret in spec.access.tlsSecretName"
            )
        yield Way(
            url=found.url,
            store=place.store,
            token=token if is_given else found.token,
            token_file=token_file,
            ca_file=ca_file,
            direct=False,
            server_hostname=found.server_hostname,
        )
