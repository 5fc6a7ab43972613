"""The baseline of GET: a bare asyncio.Protocol on uvloop with the same rocksdict get.

`python -m qss_bench.loads.bare DIRECTORY PORT` serves the rows of a plain RocksDB.
"""

import asyncio
import sys
from typing import cast

import uvloop
from rocksdict import BlockBasedOptions, Cache, Options, Rdict, WriteBatch

CACHE_BYTES = 256 * 1024 * 1024


def options() -> Options:
    """A limited cache and a bloom filter, like the pod's."""
    table = BlockBasedOptions()
    table.set_block_cache(Cache(CACHE_BYTES))
    table.set_bloom_filter(10, False)
    made = Options(raw_mode=True)
    made.create_if_missing(True)
    made.set_block_based_table_factory(table)
    return made


def open_plain(directory: str) -> Rdict:
    made = options()
    return Rdict(directory, made, column_families={"default": made})


def fill(directory: str, keys: list[bytes], value: bytes) -> Rdict:
    """Writes the keys; returns the open database."""
    db = open_plain(directory)
    for start in range(0, len(keys), 10_000):
        batch = WriteBatch(raw_mode=True)
        for key in sorted(keys[start : start + 10_000]):
            batch.put(key, value)
        db.write(batch)
    db.flush_wal(True)
    return db


class BareServer(asyncio.Protocol):
    """Answers `GET /KEY` with the value; it supports nothing else of HTTP."""

    db: Rdict

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is not a subclass.
        self._rest = b""

    def data_received(self, data: bytes) -> None:
        self._rest += data
        while (end := self._rest.find(b"\r\n\r\n")) >= 0:
            head, self._rest = self._rest[:end], self._rest[end + 4 :]
            key = head[head.rfind(b"/", 0, head.find(b" HTTP")) + 1 : head.find(b" HTTP")]
            value = self.db.get(key) or b""
            self._transport.write(
                b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(value), value)
            )


async def main(directory: str, port: int) -> None:
    BareServer.db = open_plain(directory)
    server = await asyncio.get_running_loop().create_server(BareServer, "127.0.0.1", port)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1], int(sys.argv[2])))
