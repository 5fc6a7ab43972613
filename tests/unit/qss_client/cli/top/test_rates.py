"""`qss top` shows differences of counters between two samples of a store."""

from dataclasses import replace

import pytest

from qss_client.cli.tables import shown_bytes
from qss_client.cli.top.metrics_text import PodMetrics
from qss_client.cli.top.rates import shown_of
from qss_client.cli.top.sampling import BatchesSample, PodSample, StoreSample
from qss_client.cli.top.screen import screen_lines
from qss_core.model import Epoch, Offset, Ordinal, PodName, Role, Sequence
from qss_core.wire.discovery import Lag, Lags, LoggedBatch, ReadsServed
from qss_core.wire.messages import metadata_of
from qss_testing.pods.pod_process import PodCluster


def metrics(reads: int, seconds: float, rows: int, slow: int = 0) -> PodMetrics:
    """The metrics of a pod after `reads` reads; `slow` of them took longer than 0.5 ms."""
    labels = 'listener="query",route="/state/stores/{store}/{key}"'
    return PodMetrics(
        f"""# TYPE qss_request_seconds histogram
qss_request_seconds_bucket{{{labels},le="0.0005"}} {reads - slow}
qss_request_seconds_bucket{{{labels},le="0.001"}} {reads}
qss_request_seconds_bucket{{{labels},le="+Inf"}} {reads}
qss_request_seconds_count{{{labels}}} {reads}
qss_request_seconds_sum{{{labels}}} {seconds}
qss_request_seconds_count{{listener="query",route="/state/lags/{{store}}"}} 1000
qss_request_seconds_count{{listener="internal",route="/control/replicas"}} 1000
qss_committed_records_total {rows}.0
qss_volume_free_bytes 1.5e+09
"""
    )


def lag(role: Role, sequence: int, epoch: int = 1, behind: int = 0) -> Lag:
    return Lag(
        role=role,
        epoch=Epoch(epoch),
        state="serving",
        applied_offset=Offset(5 - behind),
        end_offset=Offset(5),
        lag_offsets=behind,
        lag_seconds=float(behind),
        sequence=Sequence(sequence),
        position=None,
        stream_time=None,
    )


@pytest.fixture
def cluster(tmp_path: object) -> PodCluster:
    """Two pods with one partition and a standby; no process runs."""
    return PodCluster(tmp_path, pods=2, partitions=1, standbys=1)  # type: ignore[arg-type]


def sample(cluster: PodCluster, at_s: float, *pods: PodSample) -> StoreSample:
    return StoreSample(at_s=at_s, metadata=metadata_of(cluster.assignment), pods=pods)


def pod(number: int, lags: dict[str, Lag], found: PodMetrics | None = None) -> PodSample:
    name = PodName(f"words-{number}")
    told = Lags(pod=name, ordinal=Ordinal(number), partitions=lags)
    return PodSample(name=name, lags=told, metrics=found)


def test_rates_are_differences_by_the_time_between_the_samples(cluster: PodCluster) -> None:
    before = sample(
        cluster,
        10.0,
        pod(0, {"0": lag(Role.ACTIVE, 7)}, metrics(100, 1.0, 50)),
        pod(1, {"0": lag(Role.STANDBY, 7)}, metrics(0, 0.0, 50)),
    )
    now = sample(
        cluster,
        12.0,
        pod(0, {"0": lag(Role.ACTIVE, 10)}, metrics(300, 1.2, 250, slow=5)),
        pod(1, {"0": lag(Role.STANDBY, 9, behind=1)}, metrics(0, 0.0, 250)),
    )
    shown = shown_of(before, now)
    assert shown.store == {
        "store": "words",
        "type": "KeyValue",
        "partitions": 1,
        "pods": 2,
        "batchesPerSecond": 1.5,
        # Both replicas have applied the rows.
        "rowsPerSecond": 100.0,
        "readsPerSecond": 100.0,
    }
    first, second = shown.pods
    assert (first["readsPerSecond"], first["readMs"], first["readP99Ms"]) == (100.0, 1.0, 1.0)
    assert (second["readsPerSecond"], second["readMs"], second["readP99Ms"]) == (0.0, None, None)
    assert first["freeBytes"] == 1_500_000_000
    (partition,) = shown.partitions
    assert partition == {
        "partition": 0,
        "active": "words-0",
        "epoch": 1,
        "state": "serving",
        "sequence": 10,
        "batchesPerSecond": 1.5,
        "standbys": 1,
        "lagOffsets": 1,
        "lagSeconds": 1.0,
    }


def test_without_metrics_the_reads_are_those_of_the_status(cluster: PodCluster) -> None:
    lags = {"0": lag(Role.ACTIVE, 1)}

    def told(reads: int, seconds: float, within: dict[float, int]) -> PodSample:
        served = ReadsServed(count=reads, seconds=seconds, within=within)
        return replace(pod(0, lags), reads=served)

    first = told(100, 1.0, {0.0005: 90, 0.001: 100, 0.01: 100})
    last = told(300, 1.2, {0.0005: 285, 0.001: 299, 0.01: 300})
    (shown,) = shown_of(sample(cluster, 0.0, first), sample(cluster, 2.0, last)).pods
    assert (shown["readsPerSecond"], shown["readMs"], shown["readP99Ms"]) == (100.0, 1.0, 1.0)
    (again,) = shown_of(sample(cluster, 0.0, last), sample(cluster, 2.0, first)).pods
    assert (again["readsPerSecond"], again["readMs"], again["readP99Ms"]) == (50.0, 10.0, 1.0)
    older = sample(cluster, 2.0, pod(0, lags))  # A pod of before tells no reads.
    assert shown_of(sample(cluster, 0.0, first), older).pods[0]["readsPerSecond"] is None


def test_a_pod_that_has_restarted_counts_from_0(cluster: PodCluster) -> None:
    before = sample(cluster, 0.0, pod(0, {"0": lag(Role.ACTIVE, 1)}, metrics(500, 1.0, 500)))
    now = sample(cluster, 2.0, pod(0, {"0": lag(Role.ACTIVE, 1)}, metrics(20, 0.1, 10)))
    (shown,) = shown_of(before, now).pods
    assert (shown["readsPerSecond"], shown["rowsPerSecond"]) == (10.0, 5.0)


def test_what_no_pod_tells_is_not_shown_as_0(cluster: PodCluster) -> None:
    away = PodSample(name="words-0", failure="UNREACHABLE: no pod answers")
    shown = shown_of(sample(cluster, 0.0, away), sample(cluster, 2.0, away))
    assert shown.store["batchesPerSecond"] is None
    assert shown.store["rowsPerSecond"] is None
    assert shown.pods[0]["state"] == "UNREACHABLE"
    assert shown.partitions[0]["state"] == "no answer"
    lines = screen_lines([shown])
    assert lines[1].split() == ["words", "KeyValue", "1", "1", "-", "-", "-"]


def test_the_younger_of_two_actives_counts(cluster: PodCluster) -> None:
    both = sample(
        cluster,
        0.0,
        pod(0, {"0": lag(Role.ACTIVE, 5, epoch=1)}),
        pod(1, {"0": lag(Role.ACTIVE, 4, epoch=2)}),
    )
    assert shown_of(both, both).partitions[0]["sequence"] == 4


def test_a_screen_is_not_longer_than_the_terminal(cluster: PodCluster) -> None:
    here = sample(cluster, 0.0, pod(0, {"0": lag(Role.ACTIVE, 5)}))
    shown = shown_of(here, here)
    lines = screen_lines([shown], height=5)
    assert len(lines) == 5
    assert lines[-1] == f"... {len(screen_lines([shown])) - 4} more lines"


def test_bytes_have_three_digits() -> None:
    shown = [shown_bytes(count) for count in (0, 999, 1234, 12_345_678, 2 * 10**12)]
    assert shown == ["0", "999", "1.23k", "12.3M", "2T"]


def batches(after: int, *rows: int, first: int | None = None) -> BatchesSample:
    """Batches with these numbers of rows and rising sequences; by default right behind `after`."""
    begin = after + 1 if first is None else first
    return BatchesSample(
        after=after,
        batches=tuple(
            LoggedBatch(
                sequence=Sequence(begin + number),
                writer="w",
                batch=number,
                rows=count,
                committed_at_ms=0,
            )
            for number, count in enumerate(rows)
        ),
    )


@pytest.mark.parametrize(
    ("told", "rate"),
    [
        (batches(3, 10, 30), 20.0),
        (batches(3), 0.0),
        (batches(0, 10), 5.0),
        (batches(3, 10, first=5), None),  # The batch 4 is no longer kept.
        (None, None),
    ],
)
def test_without_metrics_the_rows_are_those_of_the_batches(
    cluster: PodCluster, told: BatchesSample | None, rate: float | None
) -> None:
    lags = {"0": lag(Role.ACTIVE, 5)}
    before = replace(sample(cluster, 0.0, pod(0, lags)), batches=batches(0, 1, 1, 1))
    now = replace(sample(cluster, 2.0, pod(0, lags)), batches=told)
    assert shown_of(before, now).store["rowsPerSecond"] == rate
