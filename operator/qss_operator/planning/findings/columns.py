"""Makes the texts of the status that `kubectl get qss` shows as columns. Pure."""

from collections import Counter
from collections.abc import Iterable

from msgspec.structs import replace

from qss_operator.planning.assignment_state import KnownAssignment, UnknownAssignment
from qss_operator.planning.model import Endpoints, Observation, PodState

_SERVING = "serving"
_NAMES_SHOWN = 4  # Zones, or versions: a spread key may have a value for each node.


def ready_pods(observation: Observation) -> list[PodState]:
    """The pods that run and say themselves that they are ready."""
    return [
        pod
        for pod in observation.cluster.pods
        if pod.is_running
        and (report := observation.reports.get(pod.ordinal)) is not None
        and report.ready
    ]


def endpoints(observation: Observation) -> Endpoints:
    """The URLs of the store, else the URLs of the first pod that is ready."""
    found = observation.cluster.endpoints
    first = next(iter(ready_pods(observation)), None)
    if not found.pods or first is None:
        return found
    address = first.address
    return replace(found, query=address.query, changelog=address.changelog)


def in_sync(observation: Observation, known: KnownAssignment | UnknownAssignment) -> str:
    """The in-sync replicas that their pods serve, of all that the store is to have, as 24/24.

    While a partition moves it may have more replicas than it is to have: these count once. The
    active and the standbys count alike.
    """
    spec = observation.resource.spec
    copies = 1 + spec.effective_standbys
    whole = spec.partitions * copies
    if isinstance(known, UnknownAssignment):
        return f"0/{whole}"
    serving = {
        (report.ordinal, replica.configuration.partition)
        for report in observation.reports.values()
        if report.store_id == known.store_id
        for replica in report.replicas
        if replica.state == _SERVING
    }
    counts = (
        sum((pod, entry.partition) in serving for pod in entry.in_sync) for entry in known.certain
    )
    return f"{sum(min(count, copies) for count in counts)}/{whole}"


def zones(observation: Observation) -> str | None:
    """The zones of the pods; None where no zone is known."""
    return _named(pod.zone for pod in observation.cluster.pods)


def versions(observation: Observation) -> str | None:
    """The versions of the pods' images; None where pods have none."""
    return _named(pod.version for pod in observation.cluster.pods)


def counted(text: str | None, number: str) -> str | None:
    """A count such as 2/3 with another number of the same whole."""
    return text and f"{number}/{text.partition('/')[2]}"


def _named(names: Iterable[str]) -> str | None:
    """The names as a=2,b=1 with the number of pods of each; one name alone without its number."""
    counts = sorted(Counter(name for name in names if name).items())
    if len(counts) < 2:
        return counts[0][0] if counts else None
    shown = [f"{name}={count}" for name, count in counts[:_NAMES_SHOWN]]
    more = len(counts) - len(shown)
    return ",".join([*shown, f"+{more}"] if more > 0 else shown)
