"""Chooses free ports of this machine, once for each pod."""

import socket
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice

from qss_operator.errors import StateDirectoryError

LOOPBACK = "127.0.0.1"
# Below the ports that systems use for outgoing connections, so that no connection takes a pod's
# port while the pod restarts.
_FIRST, _END = 18000, 32000


@dataclass(frozen=True, slots=True, kw_only=True)
class PodPorts:
    query: int
    internal: int
    ops: int

    def all(self) -> tuple[int, int, int]:
        return self.query, self.internal, self.ops


def choose_ports(
    recorded: Sequence[PodPorts], pods: int, seed: str, taken: Iterable[int] = ()
) -> tuple[PodPorts, ...]:
    """Ports for every pod: the recorded ones, unless another pod or program has one of them.

    `taken` are the ports of other pods, which may not listen now. `seed` chooses the first port to
    try, so that two clusters that start together try different ones.
    """
    of_pods = {*taken}
    kept = {*taken, *(port for pod in recorded for port in pod.all())}
    candidates = (port for port in _candidates(seed) if port not in kept and is_free(port))
    chosen = []
    for ordinal in range(pods):
        known = recorded[ordinal] if ordinal < len(recorded) else None
        if known is not None and of_pods.isdisjoint(known.all()) and all(map(is_free, known.all())):
            chosen.append(known)
            of_pods.update(known.all())
            continue
        ports = list(islice(candidates, 3))
        if len(ports) < 3:
            raise StateDirectoryError(f"no free ports are left between {_FIRST} and {_END}")
        chosen.append(PodPorts(query=ports[0], internal=ports[1], ops=ports[2]))
    return tuple(chosen)


def moves(store: str, before: Sequence[PodPorts], after: Sequence[PodPorts]) -> list[str]:
    """The messages about pods whose ports have changed."""
    return [
        f"pod {store}-{ordinal} answers at http://{LOOPBACK}:{new.query} now: another program has "
        f"one of its ports {', '.join(map(str, old.all()))}"
        for ordinal, (old, new) in enumerate(zip(before, after, strict=False))
        if old != new
    ]


def is_free(port: int) -> bool:
    """Whether a pod can listen on a port of the loopback address."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # Recently closed connections do not count.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


def _candidates(seed: str) -> Iterator[int]:
    start = _FIRST + zlib.crc32(seed.encode()) % (_END - _FIRST)
    return chain(range(start, _END), range(_FIRST, start))
