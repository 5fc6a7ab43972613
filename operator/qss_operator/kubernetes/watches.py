"""kopf watches, and that is all it does here: it patches nothing and decides nothing."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import kopf

from qss_core.errors import StoreError
from qss_operator.kubernetes.errors import KindNotServedError
from qss_operator.kubernetes.health import Health
from qss_operator.kubernetes.kinds import (
    NETWORK_POLICIES,
    PERSISTENT_VOLUME_CLAIMS,
    POD_DISRUPTION_BUDGETS,
    PODS,
    SERVICE_ACCOUNTS,
    SERVICES,
    STATEFUL_SETS,
    STORES,
    Kind,
)
from qss_operator.kubernetes.live import ReadApi
from qss_operator.kubernetes.names import GROUP, STORE_LABEL
from qss_operator.kubernetes.stores import Stores

logger = logging.getLogger(__name__)

CHILDREN = (
    STATEFUL_SETS,
    PODS,
    PERSISTENT_VOLUME_CLAIMS,
    SERVICES,
    SERVICE_ACCOUNTS,
    POD_DISRUPTION_BUDGETS,
    NETWORK_POLICIES,
)
# About five minutes of an API server that answers with errors; one that is away is waited for.
_BACKOFFS_S = (1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 89)


_CRD_INTERVAL_S = 5.0


async def wait_for_stores(
    api: ReadApi, namespaces: Sequence[str], sleep: Callable[[float], Awaitable[None]]
) -> None:
    """Returns when the API server knows of stores: kopf looks once for what it may watch.

    Any other answer than that there is no such resource is for the watches to meet.
    """
    namespace = namespaces[0] if namespaces else None
    while True:
        try:
            await api.list(STORES, namespace)
        except KindNotServedError:
            logger.warning(
                "the cluster has no resource %s.%s: apply the CRD (crds.install of the chart)",
                STORES.plural,
                STORES.group,
            )
        except StoreError:
            return
        else:
            return
        await sleep(_CRD_INTERVAL_S)


async def watch(
    stores: Stores,
    health: Health,
    namespaces: Sequence[str],
    *,
    started: asyncio.Event,
    stop: asyncio.Event,
) -> None:
    """Watches all namespaces, or those given, until told to stop; raises what kopf gives up on.

    kopf takes the signals of the process for itself, before it says that it has `started`.
    """
    registry = kopf.OperatorRegistry()
    kopf.on.login(registry=registry)(_log_in)
    for kind in (STORES, *CHILDREN):
        _register(registry, kind, stores, health)
    await kopf.operator(
        registry=registry,
        settings=watch_settings(),
        standalone=True,
        clusterwide=not namespaces,
        namespaces=list(namespaces),
        ready_flag=started,
        stop_flag=stop,
    )


def _log_in(settings: kopf.OperatorSettings, **_: Any) -> kopf.ConnectionInfo | None:
    """In a pod by its service account, else by the kubeconfig that KUBECONFIG names."""
    return kopf.login_with_service_account(settings=settings) or kopf.login_with_kubeconfig(
        settings=settings
    )


def watch_settings() -> kopf.OperatorSettings:
    """Settings that keep kopf's own writes and its waits small."""
    settings = kopf.OperatorSettings()
    settings.peering.standalone = True
    settings.scanning.disabled = True
    settings.posting.enabled = False
    for kind in CHILDREN:
        name = f"{kind.plural}.{kind.group}" if kind.group else kind.plural
        settings.watching.label_selectors[name] = STORE_LABEL
    settings.watching.server_timeout = 270
    settings.watching.connect_timeout = 10
    settings.networking.request_timeout = 30
    settings.networking.connect_timeout = 5
    settings.networking.error_backoffs = _BACKOFFS_S
    settings.persistence.finalizer = f"{GROUP}/kopf"
    settings.queueing.worker_limit = 64
    settings.process.ultimate_exiting_timeout = 10
    return settings


def _register(registry: kopf.OperatorRegistry, kind: Kind, stores: Stores, health: Health) -> None:
    async def seen(event: Any, **_: Any) -> None:
        health.heard(kind.plural)
        stores.seen(kind, event["type"], dict(event["object"]))

    kopf.on.event(
        kind.group, kind.version, kind.plural, id=f"see-{kind.plural}", registry=registry
    )(seen)
