"""Ports that stay free for a test: a restarted pod listens on its old port.

The system may give a port of its own choice (port 0) to another process as soon as it is closed.
The ports here lie below the system's range, and below those of `qss up`. Each process reserves a
block of them for its life, by an abstract socket that ends with the process.
"""

import functools
import socket
from collections.abc import Iterator
from itertools import cycle

from aiohttp import web

from qss_operator.local.directory.ports import is_free

_FIRST, _PORTS_A_BLOCK, _BLOCKS = 10_000, 500, 16
_REFUSED = 10_080  # Of another protocol: no browser opens a page there.


def free_ports(count: int) -> list[int]:
    """Free ports; a port is not returned again before all others of the block were."""
    block = _block()
    return [block.next_free() for _ in range(count)]


def port_of(runner: web.AppRunner) -> int:
    """The port on which a server listens."""
    port: int = runner.addresses[0][1]
    return port


def ports_of_block(number: int) -> list[int]:
    """The ports of a block, each good for a page in a browser."""
    first = _FIRST + number * _PORTS_A_BLOCK
    return [port for port in range(first, first + _PORTS_A_BLOCK) if port != _REFUSED]


class PortsByOrdinal(dict[int, int]):
    """Ports by ordinal; each is chosen at its first use."""

    def __missing__(self, ordinal: int) -> int:
        return self.setdefault(ordinal, *free_ports(1))


class _Block:
    def __init__(self) -> None:
        self._mark = socket.socket(socket.AF_UNIX)
        number = next(filter(self._takes, range(_BLOCKS)), None)
        assert number is not None, f"{_BLOCKS} processes test at once; wait for one to end"
        self._ports: Iterator[int] = cycle(ports_of_block(number))

    def _takes(self, number: int) -> bool:
        try:
            self._mark.bind(f"\0qss-test-ports-{number}")
        except OSError:
            return False
        return True

    def next_free(self) -> int:
        """A port that no process uses."""
        for _ in range(_PORTS_A_BLOCK):
            port = next(self._ports)
            if is_free(port):
                return port
        raise AssertionError(f"all {_PORTS_A_BLOCK} ports of this process are in use")


_block = functools.cache(_Block)
