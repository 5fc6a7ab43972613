"""A pod that asks and writes stores as any program of a user does, and what it says."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from e2e.kubectl import Cluster, Object
from qss_testing.waiting import wait_until

_PROGRAM = Path(__file__).parent / "pod_client.py"
_NAME = "client"
_MEMORY = {"requests": {"cpu": "50m", "memory": "128Mi"}}


@dataclass(frozen=True, slots=True)
class PodClient:
    """A running client pod."""

    here: Cluster

    def write(self, store: str, count: int, number: int, *authority: str) -> None:
        """Writes so many keys with this number as their value.

        By https where an authority is named, as PEM.
        """
        self._ask("write", store, str(count), str(number), *authority)

    def read(self, store: str, *authority: str) -> dict[str, Any]:
        """All rows."""
        rows: dict[str, Any] = self._ask("read", store, *authority)
        return rows

    @contextmanager
    def keeping(self, store: str) -> Iterator["Kept"]:
        """Writes and reads without a pause while the block runs; then the story is complete.

        The program runs by itself in its pod: no stream to it can break.
        """
        kept = Kept()
        self._show_token(store)
        fresh = "rm -f /tmp/told /tmp/begun /tmp/stop; cat > /tmp/client.py"
        self._exec("sh", "-c", fresh, stdin=_PROGRAM.read_text())
        run = f"(python /tmp/client.py keep {store} > /tmp/draft; mv /tmp/draft /tmp/told)"
        self._exec("sh", "-c", f"{run} > /dev/null 2> /tmp/log &")
        wait_until(partial(self._content, "/tmp/begun"), 60.0)
        yield kept
        self._exec("touch", "/tmp/stop")
        kept.story = json.loads(wait_until(partial(self._content, "/tmp/told"), 330.0))

    def _content(self, file: str) -> str:
        return self._exec("sh", "-c", f"cat {file} 2> /dev/null || true")

    def _show_token(self, store: str) -> None:
        """Puts a token for this store alone where the program looks for it."""
        audience = f"queryablestate.dev/{self.here.namespace}/{store}"
        token = self.here.kubectl("create", "token", _NAME, f"--audience={audience}")
        self._exec("sh", "-c", f"cat > /tmp/token-{store}", stdin=token)

    def _ask(self, command: str, store: str, *rest: str, timeout_s: float = 330.0) -> Any:
        self._show_token(store)
        arguments = (command, store, *rest)
        said = self._exec(
            "python", "-", *arguments, stdin=_PROGRAM.read_text(), timeout_s=timeout_s
        )
        return json.loads(said)

    def _exec(self, *command: str, stdin: str | None = None, timeout_s: float = 60.0) -> str:
        return self.here.kubectl(
            "exec", "--stdin", _NAME, "--", *command, stdin=stdin, timeout_s=timeout_s
        )


class Kept:
    """What a client that kept asking has met; empty until it has ended."""

    story: dict[str, Any] | None = None

    def told(self) -> dict[str, Any]:
        """The story; every read was right and nothing failed for good."""
        assert self.story is not None, "the client has not ended"
        return self.story


def start_client(here: Cluster, image: str) -> PodClient:
    """A pod of the store's image, with the rights to ask and to write all stores beside it."""
    here.apply(*_client_objects(here.namespace, image))
    here.wait(f"pod/{_NAME}", "condition=Ready")
    return PodClient(here)


def _client_objects(namespace: str, image: str) -> list[Object]:
    account = {"kind": "ServiceAccount", "name": _NAME, "namespace": namespace}
    bindings: list[Object] = [
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": {"name": f"{_NAME}-{role}"},
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "ClusterRole",
                "name": f"queryablestate-{role}",
            },
            "subjects": [account],
        }
        for role in ("reader", "writer")
    ]
    made: Object = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": _NAME}}
    return [made, *bindings, _client_pod(image)]


def _client_pod(image: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": _NAME, "labels": {"queryablestate.dev/writer": "e2e"}},
        "spec": {
            "serviceAccountName": _NAME,
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "terminationGracePeriodSeconds": 1,
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": 10001,
                "runAsGroup": 10001,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [
                {
                    "name": "client",
                    "image": image,
                    "imagePullPolicy": "IfNotPresent",
                    "command": ["sleep", "infinity"],
                    "resources": _MEMORY,
                    "securityContext": {
                        "allowPrivilegeEscalation": False,
                        "readOnlyRootFilesystem": True,
                        "capabilities": {"drop": ["ALL"]},
                    },
                    "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],
                }
            ],
            "volumes": [{"name": "tmp", "emptyDir": {}}],
        },
    }
