"""A network of namespaces: one for each pod and for the operator, all on one bridge.

The callers of this process are on the bridge itself. A link is cut in one direction by an entry in
the sender's table of neighbours: its packets go to an address that no interface has, and vanish. So
neither end is told, as with a broken switch.
"""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

CLIENTS = "clients"
_NOBODY = "02:00:00:00:00:fe"
_BRIDGE = "bridge"
_SUBNET = "10.217.0"


@dataclass(slots=True)
class Network:
    """Hosts by name, with an address and a namespace of their own each."""

    hosts: tuple[str, ...]

    def address(self, host: str) -> str:
        """The address of a host; clients have the bridge's."""
        number = 1 if host == CLIENTS else 10 + self.hosts.index(host)
        return f"{_SUBNET}.{number}"

    def enter(self, host: str) -> tuple[str, ...]:
        """The prefix of a command that runs in the namespace of a host."""
        return ("nsenter", f"--net=/run/netns/{host}")

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
        """Brings back every link that was cut."""
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
        """Makes the bridge, the namespaces and their links."""
        _ip("link", "add", _BRIDGE, "type", "bridge", "stp_state", "0", "forward_delay", "0")
        _ip("addr", "add", f"{self.address(CLIENTS)}/24", "dev", _BRIDGE)
        _ip("link", "set", _BRIDGE, "up")
        for host in self.hosts:
            port = self._port(host)
            _ip("netns", "add", host)
            inside = ("name", "eth0", "netns", host)
            _ip("link", "add", port, "type", "veth", "peer", *inside)
            _ip("link", "set", port, "master", _BRIDGE, "up")
            _ip("-n", host, "addr", "add", f"{self.address(host)}/24", "dev", "eth0")
            _ip("-n", host, "link", "set", "lo", "up")
            _ip("-n", host, "link", "set", "eth0", "up")

    def delete(self) -> None:
        """Deletes all that `make` made, or made in part."""
        for host in self.hosts:
            _ip("link", "del", self._port(host), check=False)
            _ip("netns", "del", host, check=False)
        _ip("link", "del", _BRIDGE, check=False)

    def _port(self, host: str) -> str:
        return f"port-{self.hosts.index(host)}"

    def _device(self, host: str) -> str:
        return _BRIDGE if host == CLIENTS else "eth0"

    def _of(self, host: str) -> tuple[str, ...]:
        return () if host == CLIENTS else ("-n", host)


@contextmanager
def network_of(hosts: tuple[str, ...]) -> Iterator[Network]:
    """A network for these hosts, inside the context and this process's own namespaces."""
    network = Network(hosts)
    try:
        network.make()
        yield network
    finally:
        network.delete()


def _ip(*arguments: str, check: bool = True) -> None:
    subprocess.run(["ip", *arguments], capture_output=True, check=check)
