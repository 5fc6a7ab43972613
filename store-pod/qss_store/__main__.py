"""`python -m qss_store`: wires one store pod and serves until it is told to stop."""

import argparse
import asyncio
import gc
import logging
import os
import signal
import uuid
from contextlib import AsyncExitStack
from pathlib import Path

import uvloop
from aiohttp import web

from qss_core.model import Ordinal, StoreName
from qss_store import logs
from qss_store.batches import Batches
from qss_store.clock import SystemClock
from qss_store.coordination import Coordination
from qss_store.engine.rocksdb import Budget, RocksDbEngine
from qss_store.http.internal_app import InternalApi, make_internal_app
from qss_store.http.ops_app import make_ops_app
from qss_store.http.query_app import discovery_routes, make_query_app
from qss_store.http.shell import make_runner
from qss_store.maintenance import Maintenance
from qss_store.metrics import Metrics
from qss_store.peers import Peers, new_session
from qss_store.pod import Pod
from qss_store.settings import Settings

_LOG = logging.getLogger("qss_store")


def main() -> None:
    """Parses the command line and runs."""
    arguments = parse_arguments()
    logs.configure(arguments.log_format, arguments.log_level)
    uvloop.run(serve(arguments, settings_from(dict(os.environ))))


def parse_arguments(argv: list[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="qss_store", description="Serves one pod of a store.")
    parser.add_argument("--store", required=True, help="the store's name")
    parser.add_argument("--ordinal", required=True, type=int, help="this pod's number, from 0")
    parser.add_argument("--data-dir", required=True, type=Path, help="the volume")
    parser.add_argument("--host", default="127.0.0.1", help="the address to listen on")
    parser.add_argument("--query-port", default=8080, type=int, help="/state, for readers")
    parser.add_argument("--internal-port", default=8081, type=int, help="writers, peers, operator")
    parser.add_argument("--ops-port", default=8082, type=int, help="metrics and health")
    parser.add_argument("--log-format", default="text", choices=("text", "json"))
    parser.add_argument("--log-level", default="info", choices=("debug", "info", "warning"))
    return parser.parse_args(argv)


def settings_from(environment: dict[str, str]) -> Settings:
    """The settings; `QSS_CHUNK_BYTES_MAX=1000` sets chunk_bytes_max, and so on."""
    kinds = {name: type(getattr(Settings(), name)) for name in Settings.__slots__}
    given = {
        name: kind(environment[f"QSS_{name.upper()}"])
        for name, kind in kinds.items()
        if f"QSS_{name.upper()}" in environment
    }
    return Settings(**given)


async def serve(arguments: argparse.Namespace, settings: Settings) -> None:
    """Serves until SIGTERM or SIGINT."""
    stop = asyncio.Event()
    for name in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(name, stop.set)
    budget = Budget.of(
        cache_bytes=settings.block_cache_bytes, write_buffer_bytes=settings.write_buffer_bytes
    )
    pod = Pod(
        StoreName(arguments.store),
        Ordinal(arguments.ordinal),
        arguments.data_dir,
        lambda path: RocksDbEngine(path, budget),
        SystemClock(),
        Metrics(),
        incarnation=uuid.uuid4().hex,
    )
    async with AsyncExitStack() as stack:
        session = await stack.enter_async_context(new_session())
        peers = Peers(session)
        batches = Batches(pod, arguments.data_dir)
        coordination = Coordination(pod, batches, peers, settings)
        maintenance = Maintenance(pod, coordination, peers, settings)
        api = InternalApi(pod, batches, coordination, session, settings)
        apps: list[tuple[web.Application, int]] = [
            (make_ops_app(pod, batches, maintenance), arguments.ops_port),
            (make_internal_app(api, pod.metrics, discovery_routes(pod)), arguments.internal_port),
            (make_query_app(pod, session, settings), arguments.query_port),
        ]
        tasks = [asyncio.create_task(maintenance.watch_loop(), name="watch-loop")]
        stack.push_async_callback(_cancel, tasks)
        stack.push_async_callback(lambda: _cancel(coordination.tasks))
        stack.push_async_callback(pod.close)
        pod.remember()
        for app, port in apps:
            runner = await make_runner(app, arguments.host, port, settings.connections_max)
            stack.push_async_callback(runner.cleanup)
        await pod.start()
        tasks.append(asyncio.create_task(maintenance.run(), name="maintenance"))
        _LOG.info("pod %s serves %d replicas", pod.name, len(pod.replicas))
        _collect_garbage_less_often()
        await stop.wait()
        _LOG.info("pod %s stops", pod.name)


def _collect_garbage_less_often() -> None:
    """A request makes hundreds of objects and no cycles: looking for them costs a tenth of it."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


async def _cancel(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


if __name__ == "__main__":
    main()
