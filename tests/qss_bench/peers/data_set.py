"""The rows of the comparison of reads, and the request files of its loads (twin of Data.java)."""

import random  # noqa: TID251 seeded.
from collections.abc import Iterator
from hashlib import md5, sha512
from pathlib import Path

import pyarrow as pa

from qss_client.chunks.chunk import Slice, encode_slice
from qss_client.chunks.key_hashes import partitions_of

RANGE_ROWS = 100
_ASKED = 20_000
_PROBES = 64
_BATCH_ROWS = 50_000


def key(number: int) -> bytes:
    """The key of a row: 16 bytes."""
    return md5(b"k%d" % number).digest()


def value(number: int) -> bytes:
    """The value of a row: 100 bytes that do not compress."""
    return sha512(b"v%d:0" % number).digest() + sha512(b"w%d:0" % number).digest()[:36]


def probes(rows: int) -> list[tuple[str, bytes]]:
    """Keys from the first row to the last one, in hex, with their values."""
    numbers = [place * (rows - 1) // (_PROBES - 1) for place in range(_PROBES)]
    return [(key(number).hex(), value(number)) for number in numbers]


def ranges(rows: int) -> list[tuple[str, str]]:
    """Bounds that hold about 100 rows each, from keys of the rows on, in hex."""
    width = (1 << 128) * RANGE_ROWS // rows
    top = (1 << 128) - width - 1
    lows = [min(int.from_bytes(key(number), "big"), top) for number in _asked(rows)]
    return [(f"{low:032x}", f"{low + width:032x}") for low in lows]


def write_requests(directory: Path, rows: int) -> None:
    """Writes keys.txt, ranges.txt, and redis.resp: the rows as SETs for `redis-cli --pipe`."""
    keys = "".join(f"{key(number).hex()}\n" for number in _asked(rows))
    (directory / "keys.txt").write_text(keys)
    bounds = "".join(f"{low} {high}\n" for low, high in ranges(rows))
    (directory / "ranges.txt").write_text(bounds)
    with (directory / "redis.resp").open("wb") as file:
        for number in range(rows):
            held = key(number), value(number)
            file.write(b"*3\r\n$3\r\nSET\r\n$16\r\n%b\r\n$100\r\n%b\r\n" % held)


def _asked(rows: int) -> list[int]:
    numbers = [place * rows // _ASKED for place in range(_ASKED)]
    random.Random(_ASKED).shuffle(numbers)
    return numbers


def batches(rows: int, partitions: int) -> Iterator[list[Slice]]:
    """The rows as batches of a store whose keys are the hex texts."""
    for first in range(0, rows, _BATCH_ROWS):
        numbers = range(first, min(first + _BATCH_ROWS, rows))
        held = sorted((key(number).hex().encode(), value(number)) for number in numbers)
        keys = pa.array([one for one, _ in held], pa.binary())
        table = pa.table({"key": keys, "value": pa.array([one for _, one in held], pa.binary())})
        places = pa.array(partitions_of(keys, partitions))
        yield [
            encode_slice(number, table.filter(pa.compute.equal(places, number)).combine_chunks())
            for number in range(partitions)
        ]
