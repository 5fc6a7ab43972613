"""A network of namespaces: one for each pod and for the operator, all on one bridge.

The callers of this process are on the bridge itself. A link is cut in one direction by an entry in
the sender's table of neighbours: its packets go to an address that no interface has, and vanish. So
neither end is told, as with a broken switch. It needs root and `ip`.
"""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from qss_faults.processes import WITH_PARENT

CLIENTS = "clients"
_NOBODY = "02:00:00:00:00:fe"
_PREFIX = "qsf"
_SUBNETS = 200


class NoNetworkError(Exception):
    """Namespaces cannot be made here; the message says why."""


def why_no_network() -> str | None:
    """The reason why this process can make no namespaces; None if it can."""
    if os.geteuid() != 0:
        return "this user is not root"
    if missing := [name for name in ("ip", "nsenter") if shutil.which(name) is None]:
        return f"{', '.join(missing)} is not installed"
    return None


@dataclass(slots=True)
class Network:
    """Hosts by name, with an address and a namespace of their own each."""

    bridge: str
    subnet: str
    hosts: tuple[str, ...]

    def address(self, host: str) -> str:
        """The address of a host; clients have the bridge's."""
        number = 1 if host == CLIENTS else 10 + self.hosts.index(host)
        return f"{self.subnet}.{number}"

    def enter(self, host: str) -> tuple[str, ...]:
        """The prefix of a command that runs in the namespace of a host."""
        return ("nsenter", f"--net=/run/netns/{self._namespace(host)}")

    def cut_off(self, host: str) -> None:
        """Takes a host's plug out of the bridge."""
        _ip("link", "set", self._port(host), "down")

    def drop(self, sender: str, receiver: str) -> None:
        """Loses all packets from one host to another one, and no others."""
        _ip(
            *self._of(sender),
            *("neigh", "replace", self.address(receiver), "lladdr", _NOBODY),
            *("nud", "permanent", "dev", self._device(sender)),
        )

    def mend(self) -> None:
        """Brings all links back."""
        everybody = (*self.hosts, CLIENTS)
        for host in self.hosts:
            _ip("link", "set", self._port(host), "up")
        for sender in everybody:
            for receiver in everybody:
                if sender != receiver:
                    _ip(
                        *self._of(sender),
                        *("neigh", "del", self.address(receiver), "dev", self._device(sender)),
                        check=False,
                    )

    def make(self) -> None:
        """Makes the bridge, the namespaces and their links. Raises NoNetworkError."""
        _ip("link", "add", self.bridge, "type", "bridge", "stp_state", "0", "forward_delay", "0")
        _ip("addr", "add", f"{self.address(CLIENTS)}/24", "dev", self.bridge)
        _ip("link", "set", self.bridge, "up")
        for host in self.hosts:
            namespace, port = self._namespace(host), self._port(host)
            _ip("netns", "add", namespace)
            inside = ("name", "eth0", "netns", namespace)
            _ip("link", "add", port, "type", "veth", "peer", *inside)
            _ip("link", "set", port, "master", self.bridge, "up")
            _ip("-n", namespace, "addr", "add", f"{self.address(host)}/24", "dev", "eth0")
            _ip("-n", namespace, "link", "set", "lo", "up")
            _ip("-n", namespace, "link", "set", "eth0", "up")

    def delete(self) -> None:
        """Deletes all that `make` made, or made in part."""
        for host in self.hosts:
            _ip("link", "del", self._port(host), check=False)
            _ip("netns", "del", self._namespace(host), check=False)
        _ip("link", "del", self.bridge, check=False)

    def _namespace(self, host: str) -> str:
        return f"{self.bridge}-{host}"

    def _port(self, host: str) -> str:
        return f"{self.bridge}p{self.hosts.index(host)}"

    def _device(self, host: str) -> str:
        return self.bridge if host == CLIENTS else "eth0"

    def _of(self, host: str) -> tuple[str, ...]:
        return () if host == CLIENTS else ("-n", self._namespace(host))


@contextmanager
def network_of(hosts: tuple[str, ...]) -> Iterator[Network]:
    """A network for these hosts, inside the context. Raises NoNetworkError."""
    if reason := why_no_network():
        raise NoNetworkError(reason)
    taken = _ip("-o", "addr", "show")
    number = os.getpid()
    subnets = (f"10.217.{(number + more) % _SUBNETS}" for more in range(_SUBNETS))
    subnet = next(one for one in subnets if f" {one}." not in taken)
    network = Network(f"{_PREFIX}{number}", subnet, hosts)
    try:
        network.make()
        yield network
    finally:
        network.delete()


def _ip(*arguments: str, check: bool = True) -> str:
    done = subprocess.run(
        [*WITH_PARENT, "ip", *arguments], capture_output=True, text=True, check=False
    )
    if check and done.returncode != 0:
        raise NoNetworkError(f"ip {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout
