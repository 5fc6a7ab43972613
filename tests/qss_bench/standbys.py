"""Measures what standbys cost: ingest and small batches, against stores without them."""

import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

from qss_bench.loads.rows import Loader, make_keys, make_slices
from qss_bench.report import Figure
from qss_client.chunks.chunk import Slice
from qss_client.writes.batch import write_batch
from qss_testing.pods.pod_process import PodCluster

_PODS = 3
_CHUNK_ROWS, _CHUNKS = 10_000, 15
_SMALL_ROWS, _SMALL_BATCHES, _SMALL_PARTITIONS = 200, 60, 12
_ROUNDS = 5
_INGEST_AT_LEAST = {1: 0.45, 2: 0.3}
_SMALL_AT_MOST = 2.5


def measure(directory: Path) -> list[Figure]:
    """Stores with 0, 1 and 2 standbys on the same three pods' number, in turns."""
    with ExitStack() as stack:

        def loaders(what: str, partitions: int, counts: tuple[int, ...]) -> dict[int, Loader]:
            found = {}
            for standbys in counts:
                cluster = PodCluster(
                    directory / f"{what}-{standbys}",
                    pods=_PODS,
                    standbys=standbys,
                    partitions=partitions,
                    value_serde="bytes",
                )
                stack.enter_context(cluster)
                found[standbys] = Loader(cluster.metadata)
            return found

        ingest = loaders("ingest", 1, (0, 1, 2))
        small = loaders("small", _SMALL_PARTITIONS, (0, 1))
        rates: dict[int, list[float]] = {standbys: [] for standbys in ingest}
        took: dict[int, list[float]] = {standbys: [] for standbys in small}
        for number in range(_ROUNDS):
            for standbys, loader in ingest.items():
                rates[standbys].append(_rows_per_s(loader, number))
            for standbys, loader in small.items():
                took[standbys].append(_small_s(loader, number))
    return [*(_ingest(standbys, rates) for standbys in _INGEST_AT_LEAST), _small(took)]


def _rows_per_s(loader: Loader, number: int) -> float:
    chunks = [
        make_slices(make_keys(_CHUNK_ROWS, seed=1000 * number + chunk), 1)
        for chunk in range(_CHUNKS)
    ]
    started = time.perf_counter()
    for slices in chunks:
        loader.write(slices)
    return _CHUNKS * _CHUNK_ROWS / (time.perf_counter() - started)


def _small_s(loader: Loader, number: int) -> float:
    """Seconds of one batch that its commit carries, the median of many."""
    batches: list[list[Slice]] = [
        make_slices(make_keys(_SMALL_ROWS, seed=1000 * number + one), _SMALL_PARTITIONS)
        for one in range(_SMALL_BATCHES)
    ]
    took = []
    for slices in batches:
        started = time.perf_counter()
        write_batch(
            loader.http,
            loader.run,
            loader.batch,
            slices,
            position={"bench": {"0": loader.batch}},
            fingerprint=str(loader.batch),
        )
        loader.batch += 1
        took.append(time.perf_counter() - started)
    return sorted(took)[len(took) // 2]


def _ingest(standbys: int, rates: Mapping[int, list[float]]) -> Figure:
    pairs = zip(rates[standbys], rates[0], strict=True)
    ours, none = sorted(pairs, key=lambda pair: pair[0] / pair[1])[_ROUNDS // 2]
    return Figure(
        name=f"ingest of 10 000-row chunks with {standbys} standbys / with none",
        value=ours / none,
        unit="x",
        at_least=_INGEST_AT_LEAST[standbys],
        detail=f"{ours:,.0f} / {none:,.0f} rows a second",
    )


def _small(took: Mapping[int, list[float]]) -> Figure:
    pairs = zip(took[1], took[0], strict=True)
    ours, none = sorted(pairs, key=lambda pair: pair[0] / pair[1])[_ROUNDS // 2]
    return Figure(
        name="batch of 200 rows in 12 partitions with 1 standby / with none",
        value=ours / none,
        unit="x",
        at_most=_SMALL_AT_MOST,
        detail=f"{1000 * ours:.1f} / {1000 * none:.1f} ms",
    )
