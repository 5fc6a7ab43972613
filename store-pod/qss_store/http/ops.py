"""The ops port: metrics for Prometheus, health for the kubelet."""

from aiohttp import web

from qss_store.access.rights import Caller
from qss_store.http.browsers import Callers, browser_middlewares
from qss_store.http.middleware import shell_middlewares
from qss_store.http.routes import Route, add_routes
from qss_store.replicas.report import numbers_of
from qss_store.writes.pod_services import PodServices

_LIVE_WITHIN_S = 10.0


class OpsApi:
    """The handlers of the ops port."""

    def __init__(self, services: PodServices) -> None:
        self._pod = services.pod
        self._batches = services.participant
        self._writers = services.coordinator.writers
        self._sweeper = services.sweeper

    async def metrics(self, _: web.Request) -> web.Response:
        """The pod's metrics, as text that Prometheus reads."""
        body = self._pod.metrics.render(self._refresh)
        return web.Response(body=body, headers={"Content-Type": "text/plain; version=0.0.4"})

    async def livez(self, _: web.Request) -> web.Response:
        """200 while the pod's timers are on time; the kubelet restarts a pod that stalls."""
        late_s = self._pod.clock.monotonic_s() - self._sweeper.turned_at
        alive = late_s < _LIVE_WITHIN_S
        return web.Response(status=200 if alive else 503, text="ok\n" if alive else "stalled\n")

    async def readyz(self, _: web.Request) -> web.Response:
        """200 once the pod serves its replicas; 503 with the reasons before."""
        if self._pod.is_ready:
            return web.Response(text="ok\n")
        registry = self._pod.registry
        why = "opening replicas" if registry.assignment else "waiting for an assignment"
        if not registry.is_of_resource:
            why = "the volume is of a deleted store of this name: waiting for the operator"
        failures = [
            f"partition {number}: {replica.failure.message}"
            for number, replica in sorted(registry.replicas.items())
            if replica.failure
        ]
        return web.Response(status=503, text="\n".join([why, *failures]) + "\n")

    def _refresh(self) -> None:
        """Sets the metrics that are read from the pod's state."""
        metrics, volume = self._pod.metrics, self._batches.volume_usage()
        metrics.staged_bytes.set(self._batches.staged_bytes())
        metrics.volume_bytes.set(volume.total)
        metrics.volume_free_bytes.set(volume.free)
        metrics.writer_silent.set(self._writers.longest_silence_s())
        metrics.replication.replicas = [
            numbers_of(replica, replica.role)
            for replica in self._pod.registry.replicas.values()
            if replica.role is not None
        ]
        for partition, replica in self._pod.registry.replicas.items():
            metrics.applied_offset.labels(str(partition)).set(replica.log.applied)
            migration = replica.migration.report(replica.views.families)
            left = metrics.migration_records_left.labels(str(partition))
            left.set(migration.rows_left if migration else 0)


OPS_ROUTES: tuple[Route[OpsApi], ...] = (
    Route(path="/metrics", caller=Caller.ANYBODY, handler=lambda api: api.metrics),
    Route(path="/livez", caller=Caller.ANYBODY, handler=lambda api: api.livez),
    Route(path="/readyz", caller=Caller.ANYBODY, handler=lambda api: api.readyz),
)


def make_ops_app(services: PodServices) -> web.Application:
    """The application of the ops port. It asks for no tokens, so it refuses foreign web pages."""
    pod, settings = services.pod, services.settings
    callers = Callers(settings.allowed_hosts, settings.allowed_origins)
    app = web.Application(
        middlewares=[
            *shell_middlewares(pod.metrics, pod.clock, "ops"),
            *browser_middlewares(callers),
        ]
    )
    add_routes(app, OpsApi(services), OPS_ROUTES)
    return app
