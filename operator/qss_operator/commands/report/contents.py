"""Gathers the parts of a report, each by one call of kubectl."""

import json
from collections.abc import Callable, Iterator
from typing import Any

from qss_client.kube.kubectl import KubernetesPlace, kubectl_text, read_resource
from qss_core.errors import StoreError
from qss_operator.commands.report.redaction import redacted_object, redacted_text

PODS_MAX = 100
LOG_BYTES_MAX = 5_000_000
_OPS_PORT = 8082
_KINDS = "statefulsets,pods,services,persistentvolumeclaims,poddisruptionbudgets,networkpolicies"
Part = tuple[str, bytes]  # The name of a file in the archive, and its bytes.


class Report:
    """The parts of one store's report; `failures` are the parts that kubectl refused."""

    def __init__(self, place: KubernetesPlace, tail: int, tell: Callable[[str], None]) -> None:
        """tail: the last lines of each log. tell: gets the name of each part."""
        self._place = place
        self._tail = tail
        self._tell = tell
        self.failures: list[str] = []

    def parts(self) -> Iterator[Part]:
        """The files, README.txt last. Raises StoreNotFoundError for no such store."""
        yield "resource.json", _json(redacted_object(read_resource(self._place)))
        label = f"queryablestate.dev/store={self._place.store}"
        objects = self._asked("objects.json", "get", _KINDS, "-l", label, "--output=json")
        pods: list[str] = []
        if objects is not None:
            found = json.loads(objects)
            pods = [
                one["metadata"]["name"] for one in found.get("items", []) if one["kind"] == "Pod"
            ]
            yield "objects.json", _json(redacted_object(found))
        events = self._asked("events.json", "get", "events", "--output=json")
        if events is not None:
            yield "events.json", _json(redacted_object(self._own(json.loads(events))))
        for pod in pods[:PODS_MAX]:
            yield from self._of_pod(pod)
        if len(pods) > PODS_MAX:
            self.failures.append(f"{len(pods) - PODS_MAX} pods: a report has {PODS_MAX} at most")
        yield "README.txt", self._readme().encode()

    def _of_pod(self, pod: str) -> Iterator[Part]:
        limits = (f"--tail={self._tail}", f"--limit-bytes={LOG_BYTES_MAX}", "--timestamps")
        for name, options in ((f"logs/{pod}.log", ()), (f"logs/{pod}.before.log", ("--previous",))):
            log = self._asked(name, "logs", pod, "--all-containers", *limits, *options)
            if log is not None:
                yield name, redacted_text(log).encode()
        name = f"metrics/{pod}.txt"
        path = f"/api/v1/namespaces/{self._place.namespace}/pods/{pod}:{_OPS_PORT}/proxy/metrics"
        metrics = self._asked(name, "get", "--raw", path)
        if metrics is not None:
            yield name, redacted_text(metrics).encode()

    def _asked(self, name: str, *arguments: str) -> str | None:
        """The answer of kubectl; None where it refuses."""
        self._tell(name)
        try:
            return kubectl_text(self._place, *arguments)
        except StoreError as error:
            self.failures.append(f"{name}: {error.message}")
            return None

    def _own(self, events: dict[str, Any]) -> list[dict[str, Any]]:
        """The events about the store, its pods and its volumes, the oldest first."""
        store = self._place.store
        found = []
        for event in events.get("items", []):
            about = event.get("involvedObject", {}).get("name", "")
            if about == store or about.startswith((f"{store}-", f"data-{store}-")):
                found.append({name: event[name] for name in _EVENT if name in event})
        return sorted(found, key=lambda one: str(one.get("lastTimestamp")))

    def _readme(self) -> str:
        place = self._place
        lines = [
            f"A report on the store {place.store} in the namespace {place.namespace}, written by",
            "kubectl qss report. It has no keys, no values and no tokens; values of environment",
            "variables are removed.",
            "",
            *(["What is not here:", *self.failures] if self.failures else ["Every part is here."]),
        ]
        return "\n".join(map(redacted_text, lines)) + "\n"


_EVENT = (
    *("type", "reason", "message", "count", "firstTimestamp", "lastTimestamp"),
    *("involvedObject", "source", "reportingComponent"),
)


def _json(document: Any) -> bytes:
    return (json.dumps(document, indent=2, ensure_ascii=False) + "\n").encode()
