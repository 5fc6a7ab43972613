"""The operator's process: composes its parts, waits for the lease, and ends when it loses it."""

import asyncio
import logging
import os
import random  # noqa: TID251 this is a shell: it draws.
import signal
import uuid
from contextlib import suppress

import aiohttp

from qss_client.clock import Clock, SystemClock
from qss_operator.http_pods import HttpPods
from qss_operator.kubernetes.access.reviewers import Reviewers
from qss_operator.kubernetes.api.client import KubernetesApi, connect
from qss_operator.kubernetes.events.poster import Events
from qss_operator.kubernetes.leadership.health import Health, HealthLimits, serve_ops
from qss_operator.kubernetes.leadership.lease import Leadership
from qss_operator.kubernetes.leadership.lease_rules import LeaseSettings
from qss_operator.kubernetes.leadership.watchdog import Watchdog
from qss_operator.kubernetes.objects.nodes import Nodes
from qss_operator.kubernetes.rounds import Rounds
from qss_operator.kubernetes.settings import OperatorSettings
from qss_operator.kubernetes.store_loop import StoreContext
from qss_operator.kubernetes.stores import Stores
from qss_operator.kubernetes.watches import Watches, wait_for_stores
from qss_operator.metrics import OperatorMetrics

logger = logging.getLogger(__name__)

_LOST_THE_LEASE = 3


async def run_operator(settings: OperatorSettings) -> None:
    """Runs until SIGTERM or SIGINT; the process ends at once when the lease is lost."""
    stop = asyncio.Event()
    _take_signals(stop)
    clock, metrics = SystemClock(), OperatorMetrics()
    health = Health(HealthLimits(), clock=clock)

    def observe(verb: str, resource: str, code: str, seconds: float) -> None:
        metrics.requested(verb, resource, code, seconds)
        health.requested(verb, resource, code, seconds)

    async with (
        serve_ops(health, metrics, settings.ops_host, settings.ops_port),
        connect(settings.kubeconfig, on_request=observe) as api,
        aiohttp.ClientSession() as session,
    ):
        leadership = _leadership(api, settings, clock)
        leading = asyncio.create_task(
            _lead(api, session, leadership, settings, clock, metrics, health, stop)
        )
        stopping = asyncio.create_task(stop.wait())
        await asyncio.wait([leading, stopping], return_when=asyncio.FIRST_COMPLETED)
        stop.set()
        if not leadership.is_held:
            leading.cancel()
        stopping.cancel()
        await asyncio.gather(leading, stopping, return_exceptions=True)
        if leading.done() and not leading.cancelled() and (error := leading.exception()):
            raise error


async def _lead(
    api: KubernetesApi,
    session: aiohttp.ClientSession,
    leadership: Leadership,
    settings: OperatorSettings,
    clock: Clock,
    metrics: OperatorMetrics,
    health: Health,
    stop: asyncio.Event,
) -> None:
    events = Events(
        api,
        reporter=settings.identity,
        clock=clock,
        token=lambda: uuid.uuid4().hex[:10],
    )
    posting = asyncio.create_task(events.run())
    reviewers = Reviewers(api, settings.reviews_binding, settings.namespaces)
    stores = Stores(
        StoreContext(
            api=api,
            pods_of=lambda access: HttpPods(session, access, clock=clock),
            events=events,
            health=health,
            metrics=metrics,
            clock=clock,
            defaults=settings.defaults,
            may_act=lambda: leadership.is_held,
            # Nodes belong to no namespace.
            nodes=Nodes(api, may_read=not settings.namespaces, clock=clock),
            rounds=Rounds(settings.rounds_max, health),
        ),
        reviewers,
    )
    watchdog = Watchdog(lambda: leadership.held_until_s, clock=clock, on_lost=_end_at_once)
    try:
        await wait_for_stores(api, settings.namespaces, asyncio.sleep)
        async with leadership.held():
            health.is_leader = True
            with watchdog:
                watches = Watches(api, stores, health, clock=clock)
                watching = asyncio.create_task(watches.run(settings.namespaces))
                binding = asyncio.create_task(reviewers.run())
                stopping = asyncio.create_task(stop.wait())
                await asyncio.wait([watching, stopping], return_when=asyncio.FIRST_COMPLETED)
                stopping.cancel()
                watching.cancel()
                binding.cancel()
                await stores.stop()
            health.is_leader = False
        # The lease is free by now; kopf ends later, and its messages are ignored.
        with suppress(asyncio.CancelledError):
            await watching
    finally:
        posting.cancel()


def _take_signals(stop: asyncio.Event) -> None:
    for name in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(name, stop.set)


def _leadership(api: KubernetesApi, settings: OperatorSettings, clock: Clock) -> Leadership:
    return Leadership(
        api,
        LeaseSettings(
            namespace=settings.lease_namespace,
            name=settings.lease_name,
            identity=f"{settings.identity}_{uuid.uuid4().hex[:8]}",
        ),
        clock=clock,
        sleep=asyncio.sleep,
        chance=random.random,
        on_lost=_end_at_once,
    )


def _end_at_once(why: str) -> None:
    """Ends the process at once, without another write: another operator may act from now on."""
    logger.critical("this process ends, since the lease %s", why)
    logging.shutdown()
    os._exit(_LOST_THE_LEASE)
