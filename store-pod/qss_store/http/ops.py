"""The ops port: metrics for Prometheus, health for the kubelet."""

from aiohttp import web

from qss_store.http.browsers import Callers, browser_middlewares
from qss_store.http.middleware import shell_middlewares
from qss_store.writes.pod_services import PodServices

_LIVE_WITHIN_S = 10.0


def make_ops_app(services: PodServices) -> web.Application:
    """The application of the ops port. It asks for no tokens, so it refuses foreign web pages."""
    pod, batches, sweeper = services.pod, services.participant, services.sweeper

    def refresh() -> None:
        pod.metrics.staged_bytes.set(batches.staged_bytes())
        volume = batches.volume_usage()
        pod.metrics.volume_bytes.set(volume.total)
        pod.metrics.volume_free_bytes.set(volume.free)
        pod.metrics.writer_silent.set(sweeper.writer_silent_s())
        for partition, replica in pod.registry.replicas.items():
            pod.metrics.applied_offset.labels(str(partition)).set(replica.log.applied)
            migration = replica.migration.report(replica.shown_families())
            left = pod.metrics.migration_records_left.labels(str(partition))
            left.set(migration.rows_left if migration else 0)

    async def metrics(_: web.Request) -> web.Response:
        body = pod.metrics.render(refresh)
        return web.Response(body=body, headers={"Content-Type": "text/plain; version=0.0.4"})

    async def livez(_: web.Request) -> web.Response:
        late_s = pod.clock.monotonic_s() - sweeper.turned_at
        alive = late_s < _LIVE_WITHIN_S
        return web.Response(status=200 if alive else 503, text="ok\n" if alive else "stalled\n")

    async def readyz(_: web.Request) -> web.Response:
        if pod.is_ready:
            return web.Response(text="ok\n")
        why = "opening replicas" if pod.registry.assignment else "waiting for an assignment"
        failures = [
            f"partition {number}: {replica.failure.message}"
            for number, replica in sorted(pod.registry.replicas.items())
            if replica.failure
        ]
        return web.Response(status=503, text="\n".join([why, *failures]) + "\n")

    settings = services.settings
    callers = Callers(settings.allowed_hosts, settings.allowed_origins)
    app = web.Application(
        middlewares=[*shell_middlewares(pod.metrics, "ops"), *browser_middlewares(callers)]
    )
    app.add_routes(
        [web.get("/metrics", metrics), web.get("/livez", livez), web.get("/readyz", readyz)]
    )
    return app
