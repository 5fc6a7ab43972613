"""The rows of the benchmarks: 16-byte keys, 100-byte values that do not compress."""

import os
import random  # noqa: TID251 seeded.
from collections.abc import Iterator
from itertools import islice

import numpy as np
import pyarrow as pa

from qss_client.chunks.chunk import Slice, encode_slice
from qss_client.chunks.chunk_schema import KEY_VALUE, SESSION_END, ChunkSchema
from qss_client.chunks.key_hashes import partitions_of
from qss_client.http.sync_http import SyncHttp
from qss_client.writes.batch import Run, Staged, commit, open_writer, stage
from qss_core.wire.messages import StoreMetadata

VALUE_BYTES = 100
HOUR_MS = 3_600_000
HOURS = 20


def make_keys(count: int, seed: int = 7) -> list[bytes]:
    """Distinct printable keys of 16 bytes."""
    numbers = random.Random(seed)
    return [f"{numbers.getrandbits(44):011x}{number:05x}".encode() for number in range(count)]


def make_slices(keys: list[bytes], partitions: int, layout: ChunkSchema = KEY_VALUE) -> list[Slice]:
    """The rows of the keys, sorted, one slice a partition; times spread over `HOURS`."""
    by_partition: dict[int, list[bytes]] = {}
    for key, partition in zip(
        keys, partitions_of(pa.array(keys, pa.binary()), partitions).tolist(), strict=True
    ):
        by_partition.setdefault(partition, []).append(key)
    return [
        encode_slice(number, _with_times(_table(sorted(held)), layout))
        for number, held in by_partition.items()
    ]


def _with_times(rows: pa.Table, layout: ChunkSchema) -> pa.Table:
    starts = np.arange(rows.num_rows, dtype=np.int64) * 7919 % HOURS * HOUR_MS
    for name in layout.times:
        times = starts + HOUR_MS // 2 if name == SESSION_END else starts
        rows = rows.append_column(name, pa.array(times))
    return rows


def _table(keys: list[bytes]) -> pa.Table:
    values = os.urandom(VALUE_BYTES * len(keys))
    offsets = range(0, VALUE_BYTES * (len(keys) + 1), VALUE_BYTES)
    cut = [values[a:b] for a, b in zip(offsets, islice(offsets, 1, None), strict=False)]
    return pa.table({"key": pa.array(keys, pa.binary()), "value": pa.array(cut, pa.binary())})


class Loader:
    """Writes batches like a job."""

    def __init__(self, metadata: StoreMetadata) -> None:
        self.http = SyncHttp()
        self.run: Run = open_writer(
            self.http, metadata, "bench", query_id="bench", run_id=os.urandom(8).hex()
        )
        last = self.run.opened.last_batch
        self.batch = 0 if last is None else last + 1

    def write(self, slices: list[Slice]) -> None:
        """Stages and commits one batch."""
        staged = stage(self.http, self.run, self.batch, f"b{self.batch}", slices)
        self.commit(staged)

    def commit(self, staged: list[Staged]) -> None:
        position = {"bench": {"0": self.batch}}
        commit(
            self.http, self.run, self.batch, staged, position=position, fingerprint=str(self.batch)
        )
        self.batch += 1


def load(metadata: StoreMetadata, keys: list[bytes], rows_per_batch: int = 50_000) -> Loader:
    loader = Loader(metadata)
    for some in _batches(keys, rows_per_batch):
        loader.write(make_slices(some, metadata.definition.partitions))
    return loader


def _batches(keys: list[bytes], size: int) -> Iterator[list[bytes]]:
    for start in range(0, len(keys), size):
        yield keys[start : start + size]
