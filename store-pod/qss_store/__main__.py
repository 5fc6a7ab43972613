"""`python -m qss_store`: wires one store pod, and serves until it is told to stop."""

import gc
import sys

from qss_core.early_stop import end_at_once_if_told_to_stop
from qss_store.runtime.process.libraries import LibraryError, check_libraries

if __name__ == "__main__":
    end_at_once_if_told_to_stop()  # The first process of a container ignores SIGTERM otherwise.
    try:
        check_libraries()  # With another aiohttp an import may fail, and would not name it.
    except LibraryError as refused:
        sys.stderr.write(f"{refused}\n")
        raise SystemExit(2) from None
    gc.disable()  # The imports leave no garbage, and looking for it takes a tenth of their time.

import argparse
import asyncio
import logging
import os
import signal
import uuid
from contextlib import AsyncExitStack

import uvloop

from qss_client.clock import Clock, SystemClock
from qss_client.log_format import configure_log
from qss_core.model import Ordinal, StoreName
from qss_core.version import VERSION
from qss_store.access.setup import protected
from qss_store.access.tls import CertificateError
from qss_store.http.connection.protocol import LISTENER_LIMITS, OPS_LIMITS
from qss_store.http.internal.app import make_internal_app
from qss_store.http.ops import make_ops_app
from qss_store.http.query.app import make_query_app
from qss_store.http.server import make_runner
from qss_store.replicas.migration_pacing import Migrator
from qss_store.replicas.opening.leaving import Leaving
from qss_store.replicas.pod_context import PodConfig
from qss_store.runtime.command_line import (
    SettingError,
    parse_arguments,
    settings_from,
    unknown_settings,
)
from qss_store.runtime.log_format import TextFormatter, tell_unexpected
from qss_store.runtime.metrics import Metrics
from qss_store.runtime.peer_client import Peers, PeerSession
from qss_store.runtime.plugins import load_extensions
from qss_store.runtime.process.allocator import give_large_pieces_back
from qss_store.runtime.process.file_limits import connections_within, raise_open_files
from qss_store.runtime.process.interpreter import tune_interpreter
from qss_store.runtime.process.memory_limit import memory_limit, memory_of_machine
from qss_store.runtime.process.memory_shares import with_shares
from qss_store.runtime.process.without_pandas import settle_without_pandas
from qss_store.runtime.settings import Settings
from qss_store.storage.rocksdb.database import RocksDbEngine
from qss_store.storage.rocksdb.memory_budget import MemoryBudget
from qss_store.writes.pod_services import PodServices, build_pod

_LOG = logging.getLogger("qss_store")


def main() -> None:
    """Parses the command line and runs."""
    gc.enable()
    arguments = parse_arguments()
    configure_log(arguments.log_format, arguments.log_level, TextFormatter)
    settle_without_pandas()
    give_large_pieces_back()
    try:
        settings = settings_from(os.environ)
    except SettingError as error:
        _LOG.critical("%s", error)
        raise SystemExit(2) from None
    for line in unknown_settings(os.environ):
        _LOG.warning("%s", line)
    settings = with_shares(settings, memory_limit(), memory_of_machine())
    try:
        uvloop.run(serve(arguments, settings))
    except CertificateError as error:
        _LOG.critical("--tls-dir: %s", error)
        raise SystemExit(1) from None


async def serve(arguments: argparse.Namespace, settings: Settings) -> None:
    """Serves until SIGTERM or SIGINT, and then until other pods have taken over."""
    stop, stop_now = _stop_signals()
    asyncio.get_running_loop().set_exception_handler(tell_unexpected)
    clock = SystemClock()
    async with AsyncExitStack() as stack:
        metrics = Metrics()
        protection = await stack.enter_async_context(protected(arguments, settings, clock, metrics))
        session = await stack.enter_async_context(PeerSession(protection.trust))
        peers = Peers(session, protection.credentials)
        services = _services_of(arguments, settings, peers, clock, metrics)
        pod, coordination, sweeper = services.pod, services.coordinator, services.sweeper
        guard, tls = protection.guard, protection.server
        internal_app = make_internal_app(services, session, guard)
        query_app = make_query_app(services, session, guard)
        listeners = [
            # The kubelet and Prometheus ask here: they have no token, and nothing here is a secret.
            (make_ops_app(services), arguments.ops_port, None, OPS_LIMITS),
            (internal_app, arguments.internal_port, tls, LISTENER_LIMITS),
            (query_app, arguments.query_port, tls, LISTENER_LIMITS),
        ]
        looking = asyncio.create_task(pod.room.run(pod.report_feed.tell), name="volume-room")
        looking.add_done_callback(lambda _: stop.set())
        looking.add_done_callback(lambda _: stop_now.set())
        tasks = [looking, asyncio.create_task(sweeper.watch_loop(), name="watch-loop")]
        stack.push_async_callback(_cancel, tasks)
        stack.push_async_callback(lambda: _cancel(coordination.tasks))
        stack.push_async_callback(pod.close)
        pod.remember()
        most = connections_within(settings.connections_max, raise_open_files())
        for app, port, context, limits in listeners:
            runner = await make_runner(app, arguments.host, port, most, limits, tls=context)
            stack.push_async_callback(runner.cleanup)
        await pod.start(compares=True)
        await services.comparison.first()
        works = (services.comparison.run(), services.scrubber.run(), pod.keep_sync_marks())
        tasks += [asyncio.create_task(work) for work in (sweeper.run(), *works)]
        stack.push_async_callback(_cancel, [asyncio.create_task(Migrator(pod, settings).run())])
        stack.push_async_callback(lambda: _cancel(services.copies.tasks))
        stack.push_async_callback(_cancel, [asyncio.create_task(services.senders.run())])
        _LOG.info(
            "pod %s (%s) has opened %d replicas", pod.name, VERSION, len(pod.registry.replicas)
        )
        tune_interpreter()
        await stop.wait()
        replicas = pod.registry.replicas
        await Leaving(pod.ordinal, replicas, pod.report_feed, clock, settings).run(stop_now)
        if is_gone := looking.done():
            _LOG.critical("the volume %s is gone, exchanged or broken", arguments.data_dir)
        _LOG.info("pod %s stops", pod.name)
    if is_gone:
        raise SystemExit(1)


def _stop_signals() -> tuple[asyncio.Event, asyncio.Event]:
    """Two events: the first SIGTERM or SIGINT sets the first, the second signal the second."""
    stop, stop_now = asyncio.Event(), asyncio.Event()
    for name in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(
            name, lambda: (stop_now if stop.is_set() else stop).set()
        )
    return stop, stop_now


def _services_of(
    arguments: argparse.Namespace,
    settings: Settings,
    peers: Peers,
    clock: Clock,
    metrics: Metrics,
) -> PodServices:
    budget = MemoryBudget.of(
        cache_bytes=settings.block_cache_bytes, write_buffer_bytes=settings.write_buffer_bytes
    )
    config = PodConfig(
        store=StoreName(arguments.store),
        ordinal=Ordinal(arguments.ordinal),
        directory=arguments.data_dir,
        incarnation=uuid.uuid4().hex,
        resource_uid=os.environ.get("QSS_RESOURCE_UID", ""),
        settings=settings,
        extensions=load_extensions(),
    )
    return build_pod(
        config,
        peers,
        clock,
        lambda path: RocksDbEngine(path, budget),
        lambda path: RocksDbEngine(path, budget, salvages=True),
        metrics,
    )


async def _cancel(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


if __name__ == "__main__":
    main()
