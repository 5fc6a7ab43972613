"""Runs kubectl and helm; every command has a deadline."""

import json
import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import yaml

from qss_testing.waiting import wait_until

Object = dict[str, Any]
_COMMAND_TIMEOUT_S = 60.0
_POLL_REQUEST_TIMEOUT_S = 10.0


class CommandError(Exception):
    """A command failed; its output is the message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """A cluster, and the namespace of the commands."""

    kubeconfig: str
    path: str
    namespace: str = "default"

    def within(self, namespace: str) -> "Cluster":
        """The same cluster with another namespace."""
        return replace(self, namespace=namespace)

    @property
    def environment(self) -> dict[str, str]:
        """The variables of a program that reaches this cluster."""
        return {**os.environ, "PATH": self.path, "KUBECONFIG": self.kubeconfig}

    def run(
        self, *command: str, stdin: str | None = None, timeout_s: float = _COMMAND_TIMEOUT_S
    ) -> str:
        """Runs a program with this cluster's kubeconfig; raises CommandError."""
        ended = subprocess.run(
            command,
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout_s,
            env=self.environment,
        )
        if ended.returncode != 0:
            raise CommandError(f"{' '.join(command)}:\n{ended.stdout}{ended.stderr}".strip())
        return ended.stdout

    def kubectl(
        self, *arguments: str, stdin: str | None = None, timeout_s: float = _COMMAND_TIMEOUT_S
    ) -> str:
        """Runs kubectl in the namespace."""
        return self.run(
            "kubectl", "--namespace", self.namespace, *arguments, stdin=stdin, timeout_s=timeout_s
        )

    def helm(self, *arguments: str, timeout_s: float = 240.0) -> str:
        """Runs helm in the namespace."""
        return self.run("helm", "--namespace", self.namespace, *arguments, timeout_s=timeout_s)

    def apply(self, *documents: Object, options: Sequence[str] = ()) -> str:
        """Applies the objects, as `kubectl apply -f` does."""
        return self.kubectl("apply", "-f", "-", *options, stdin=yaml.safe_dump_all(documents))

    def refusal(self, document: Object, *options: str, verb: str = "apply") -> str:
        """The message of the API server for a resource that it must refuse."""
        try:
            said = self.kubectl(verb, "-f", "-", *options, stdin=yaml.safe_dump(document))
        except CommandError as error:
            return str(error)
        raise AssertionError(f"the API server took it: {said}")

    def get(self, *arguments: str) -> Object:
        """An object, or a list of them."""
        found: Object = json.loads(self.kubectl("get", *arguments, "--output", "json"))
        return found

    def items(self, *arguments: str) -> list[Object]:
        """The objects of a list."""
        found: list[Object] = self.get(*arguments)["items"]
        return found

    def find(self, *arguments: str) -> Object | None:
        """An object, or None if it does not exist."""
        text = self.kubectl("get", *arguments, "--ignore-not-found", "--output", "json")
        return json.loads(text) if text.strip() else None

    def patch(self, what: str, patch: Mapping[str, Any], *options: str) -> None:
        """Applies a merge patch to an object."""
        self.kubectl("patch", what, "--type=merge", "--patch", json.dumps(patch), *options)

    def wait(self, what: str, condition: str, timeout_s: float = 120.0) -> None:
        """As `kubectl wait --for`; the error shows the object."""
        try:
            self.kubectl(
                "wait",
                what,
                f"--for={condition}",
                f"--timeout={timeout_s:.0f}s",
                timeout_s=timeout_s + 30,
            )
        except CommandError as error:
            state = self.kubectl("get", what, "--output", "yaml", "--ignore-not-found")
            raise AssertionError(f"{error}\n{state[-6000:]}") from error

    def until(
        self, what: str, holds: Callable[[Object], object], timeout_s: float = 120.0
    ) -> Object:
        """Waits until `holds` is true of an object; returns the object."""
        last: list[Object | None] = [None]

        def found() -> Object | None:
            last[0] = self.find(what)
            return last[0] if last[0] is not None and holds(last[0]) else None

        try:
            return wait_until(found, timeout_s)
        except AssertionError as error:
            shown = yaml.safe_dump(last[0])[-6000:]
            raise AssertionError(f"{what} after {timeout_s} s:\n{shown}") from error

    def until_gone(self, what: str, timeout_s: float = 120.0) -> None:
        """Waits until the object does not exist."""
        self.wait(what, "delete", timeout_s)
