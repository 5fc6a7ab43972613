"""Ports that a test may come back to: a pod that starts again listens where it did.

A port that the system picks (port 0) goes, as soon as it is closed, to whoever connects or listens
next. These lie below the range of which the system gives, and below those of `qss up`. Each process
takes a block of them for its life, marked by an abstract socket, which ends with it.
"""

import functools
import socket
from collections.abc import Iterator
from itertools import cycle

from qss_operator.local.directory.ports import is_free

_FIRST, _PORTS_A_BLOCK, _BLOCKS = 10_000, 500, 16


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on now, and that are not given again before all others were."""
    block = _block()
    return [block.next_free() for _ in range(count)]


class PortsByOrdinal(dict[int, int]):
    """Ports by ordinal: a pod's own is chosen when it is first asked for."""

    def __missing__(self, ordinal: int) -> int:
        return self.setdefault(ordinal, *free_ports(1))


class _Block:
    """The ports of this process."""

    def __init__(self) -> None:
        self._mark = socket.socket(socket.AF_UNIX)
        number = next(filter(self._takes, range(_BLOCKS)), None)
        assert number is not None, f"{_BLOCKS} processes test at once; wait for one to end"
        first = _FIRST + number * _PORTS_A_BLOCK
        self._ports: Iterator[int] = cycle(range(first, first + _PORTS_A_BLOCK))

    def _takes(self, number: int) -> bool:
        try:
            self._mark.bind(f"\0qss-test-ports-{number}")
        except OSError:
            return False
        return True

    def next_free(self) -> int:
        """A port, bound by nobody."""
        for _ in range(_PORTS_A_BLOCK):
            port = next(self._ports)
            if is_free(port):
                return port
        raise AssertionError(f"all {_PORTS_A_BLOCK} ports of this process are in use")


_block = functools.cache(_Block)
