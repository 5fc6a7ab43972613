"""Makes of two samples of a store the numbers that `qss top` shows. Pure."""

from dataclasses import dataclass
from math import isfinite
from typing import Any

from qss_client.cli.top.metrics_text import Labels, PodMetrics
from qss_client.cli.top.sampling import PodSample, StoreSample
from qss_core.model import Role
from qss_core.wire.discovery import Lag, ReadsServed, is_read

_SHARE = 0.99


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A store as `qss top` shows it; documents by the names of the columns."""

    store: dict[str, Any]
    pods: tuple[dict[str, Any], ...]
    partitions: tuple[dict[str, Any], ...]


def shown_of(before: StoreSample, now: StoreSample) -> Shown:
    """The rates between two samples. A number that no pod reports is None."""
    seconds = max(now.at_s - before.at_s, 1e-3)
    earlier = {pod.name: pod for pod in before.pods}
    pods = tuple(_pod(earlier.get(pod.name), pod, seconds) for pod in now.pods)
    definition = now.metadata.definition
    first, last = _last_sequence(before), _last_sequence(now)
    return Shown(
        store={
            "store": definition.name,
            "type": definition.type,
            "partitions": definition.partitions,
            "pods": len(now.pods),
            "batchesPerSecond": _rate(first, last, seconds),
            "rowsPerSecond": _rows_of_batches(before, now, seconds)
            if now.batches
            else _rows_of_store(pods, now),
            "readsPerSecond": _sum([pod["readsPerSecond"] for pod in pods]),
        },
        pods=pods,
        partitions=tuple(_partitions(before, now, seconds)),
    )


def _pod(before: PodSample | None, now: PodSample, seconds: float) -> dict[str, Any]:
    first, last = None if before is None else before.metrics, now.metrics
    rows, free_bytes = None, now.free_bytes
    if first is not None and last is not None:
        rows = _rows(first, last) / seconds
        free_bytes = int(last.total("qss_volume_free_bytes"))
    return {
        "pod": now.name,
        "state": "answers" if now.failure is None else now.failure.partition(":")[0],
        **_reads(None if before is None else _reads_of(before), _reads_of(now), seconds),
        "rowsPerSecond": None if rows is None else round(rows, 1),
        "freeBytes": free_bytes,
    }


def _rows(before: PodMetrics, now: PodMetrics) -> float:
    first, last = (one.total("qss_committed_records_total") for one in (before, now))
    return last - first if last >= first else last  # The pod has restarted.


def _reads_of(pod: PodSample) -> ReadsServed | None:
    """The reads that a pod has answered, by its metrics, or else by its status."""
    if pod.metrics is None:
        return pod.reads
    within = pod.metrics.buckets("qss_request_seconds", _is_read)
    return ReadsServed(
        count=int(pod.metrics.total("qss_request_seconds_count", _is_read)),
        seconds=pod.metrics.total("qss_request_seconds_sum", _is_read),
        within={bound: int(count) for bound, count in within.items() if isfinite(bound)},
    )


def _is_read(labels: Labels) -> bool:
    return is_read(labels["listener"], labels["route"])


def _reads(
    before: ReadsServed | None, now: ReadsServed | None, seconds: float
) -> dict[str, float | None]:
    if before is None or now is None:
        return dict.fromkeys(("readsPerSecond", "readMs", "readP99Ms"))
    if now.count < before.count:  # The pod has restarted.
        before = ReadsServed(count=0, seconds=0.0, within={})
    reads = now.count - before.count
    spent_s = now.seconds - before.seconds
    return {
        "readsPerSecond": round(reads / seconds, 1),
        "readMs": round(spent_s / reads * 1000, 3) if reads else None,
        "readP99Ms": _bound_of(before, now, reads) if reads else None,
    }


def _bound_of(before: ReadsServed, now: ReadsServed, reads: int) -> float | None:
    """The least bound of the histogram that 99 of 100 reads kept, in ms; None if there is none."""
    for bound in sorted(now.within):
        if now.within[bound] - before.within.get(bound, 0) >= _SHARE * reads:
            return round(bound * 1000, 3)
    return None


def _partitions(before: StoreSample, now: StoreSample, seconds: float) -> Any:
    earlier = _lags_of(before)
    lags = _lags_of(now)
    names = {one.ordinal: one.pod for one in now.metadata.instances}
    for entry in sorted(now.metadata.assignment, key=lambda one: one.partition):
        number = str(entry.partition)
        active = lags.get((number, Role.ACTIVE))
        first = earlier.get((number, Role.ACTIVE))
        standby = lags.get((number, Role.STANDBY))
        sequence = None if active is None else active.sequence
        yield {
            "partition": entry.partition,
            "active": names.get(entry.active, str(entry.active)),
            "epoch": entry.epoch,
            "state": "no answer" if active is None else active.state,
            "sequence": sequence,
            "batchesPerSecond": _rate(first.sequence if first else None, sequence, seconds),
            "standbys": len({*entry.in_sync} - {entry.active}),
            "lagOffsets": standby.lag_offsets if standby else None,
            "lagSeconds": standby.lag_seconds if standby else None,
        }


def _lags_of(sample: StoreSample) -> dict[tuple[str, Role], Lag]:
    """The replica of each partition and role; of several standbys the one that is farthest behind.

    Of two pods that call themselves active the one with the higher epoch is.
    """
    found: dict[tuple[str, Role], Lag] = {}
    for pod in sample.pods:
        for number, lag in (pod.lags.partitions if pod.lags else {}).items():
            other = found.get((number, lag.role))
            rank = lag.epoch if lag.role is Role.ACTIVE else lag.lag_offsets
            if other is None or rank > (
                other.epoch if lag.role is Role.ACTIVE else other.lag_offsets
            ):
                found[number, lag.role] = lag
    return found


def _last_sequence(sample: StoreSample) -> int | None:
    known = [lag.sequence for lag in _lags_of(sample).values() if lag.sequence is not None]
    return max(known, default=None)


def _rate(first: int | None, last: int | None, seconds: float) -> float | None:
    if first is None or last is None:
        return None
    return round(max(0, last - first) / seconds, 1)


def _rows_of_store(pods: tuple[dict[str, Any], ...], now: StoreSample) -> float | None:
    """Each replica applies the rows of its partition, so the pods' sum counts a row repeatedly."""
    rows = _sum([pod["rowsPerSecond"] for pod in pods])
    replicas = sum(len(pod.lags.partitions) for pod in now.pods if pod.lags)
    if rows is None or not replicas:
        return None
    return round(rows * now.metadata.definition.partitions / replicas, 1)


def _rows_of_batches(before: StoreSample, now: StoreSample, seconds: float) -> float | None:
    """The rows of the batches between the samples; None if the pod no longer has all of them."""
    told = now.batches
    if before.batches is None or told is None:
        return None
    if told.after and told.batches and told.batches[0].sequence > told.after + 1:
        return None
    return round(sum(one.rows for one in told.batches) / seconds, 1)


def _sum(numbers: list[float | None]) -> float | None:
    """The sum, if all numbers are known."""
    known = [number for number in numbers if number is not None]
    return round(sum(known), 1) if known and len(known) == len(numbers) else None
