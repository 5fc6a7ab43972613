"""A store by its name on Kubernetes: in a pod by its Service, elsewhere through `kubectl`."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

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
    """The store NAMESPACE/STORE, for as long as the block runs.

    In a pod: by the Service, over https where `ca_file` is given, with the pod's own token.
    Elsewhere: by `kubectl port-forward`, with a token of `service_account` where one is needed. A
    `token` or a `token_file` that is given is shown instead.
    """
    place = KubernetesPlace.parse(name, context)
    if is_in_cluster() and context is None:
        url = service_url(place, tls=ca_file is not None)
        with Store(
            url, place.store, token=token, token_file=token_file, ca_file=ca_file, limits=limits
        ) as store:
            yield store
        return
    is_given = token is not None or token_file is not None
    with forwarded(place, None if is_given else service_account) as found:
        if found.server_hostname is not None and ca_file is None:
            raise MalformedRequestError(
                f"store {name} has a certificate: name its authority by ca_file (qss: --ca-file); "
                f"`kubectl get secret` shows the ca.crt of the Secret in spec.access.tlsSecretName"
            )
        with Store(
            found.url,
            place.store,
            token=token if is_given else found.token,
            token_file=token_file,
            ca_file=ca_file,
            direct=False,
            server_hostname=found.server_hostname,
            limits=limits,
        ) as store:
            yield store
