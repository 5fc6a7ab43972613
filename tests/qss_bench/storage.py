"""Measures the bytes of a stored window row with headers, by format, before compression."""

import asyncio
import os
from pathlib import Path

from qss_bench.loads.rows import HOUR_MS, VALUE_BYTES
from qss_bench.report import Figure
from qss_core.formats.values import Format
from qss_core.model import StoreType
from qss_testing.pods.stores import Cluster, Put, make_definition, open_rocksdb

ROWS = 10_000
HEADERS = (("source", b"flights-001.csv"), ("line", b"12345"))


def measure(directory: Path) -> list[Figure]:
    """The bytes per row that `PlainWithHeaders` (KIP-1300) saves."""
    sizes = {
        one: asyncio.run(_bytes_a_row(directory / one.value, one))
        for one in (Format.TimestampedWithHeaders, Format.PlainWithHeaders)
    }
    with_times, plain = sizes.values()
    return [
        Figure(
            name="PlainWithHeaders window row, bytes less than TimestampedWithHeaders",
            value=with_times - plain,
            unit="bytes",
            at_least=8.0,
            detail=f"{plain:g} and {with_times:g} bytes a row, key and headers among them",
        )
    ]


async def _bytes_a_row(directory: Path, row_format: Format) -> float:
    definition = make_definition(
        1, type=StoreType.WINDOW, format=row_format.value, value_serde="bytes"
    )
    cluster = Cluster(definition, directory, open_rocksdb())
    await cluster.start(1)
    try:
        starts = (number % 24 * HOUR_MS for number in range(ROWS))
        await cluster.put(
            [
                Put(b"%06d" % number, os.urandom(VALUE_BYTES), 1, HEADERS, start)
                for number, start in enumerate(starts)
            ]
        )
        engine = cluster.active(0).engine
        rows = [
            len(key) + len(row)
            for family in engine.families()
            if family.startswith("rows-")
            for key, row in engine.scan(family)
        ]
        assert len(rows) == ROWS, f"{len(rows)} rows are stored"
        return sum(rows) / ROWS
    finally:
        await cluster.close()
