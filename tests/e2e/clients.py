"""A pod that reads and writes stores like any program of a user."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from e2e.kubectl import Cluster, Object
from qss_testing.waiting import wait_until

_PROGRAM = Path(__file__).parent / "pod_client.py"
_NAME = "client"
_WARNINGS_KEPT = 40
_MEMORY = {"requests": {"cpu": "50m", "memory": "128Mi"}}


@dataclass(frozen=True, slots=True)
class PodClient:
    """Reads and writes stores from a pod of the cluster."""

    here: Cluster

    def write(self, store: str, count: int, number: int, *authority: str) -> None:
        """Writes `count` keys with `number` as their value.

        Requests go over https if an authority is given as PEM.
        """
        self._ask("write", store, str(count), str(number), *authority)

    def fill(self, store: str, size: int) -> None:
        """Writes so many bytes of values, under keys of their own."""
        self._ask("fill", store, str(size))

    def read(self, store: str, *authority: str) -> dict[str, Any]:
        """All rows of a store."""
        rows: dict[str, Any] = self._ask("read", store, *authority)
        return rows

    def read_actives(self, store: str) -> dict[str, Any]:
        """All rows of a store as its actives have them; standbys may be behind."""
        rows: dict[str, Any] = self._ask("read-actives", store)
        return rows

    def read_newest(self, store: str, count: int) -> dict[str, Any]:
        """The newest versions of the first keys of a store of versions."""
        rows: dict[str, Any] = self._ask("read-newest", store, str(count))
        return rows

    @contextmanager
    def keeping(self, store: str) -> Iterator["Kept"]:
        """Writes and reads without a pause while the block runs, then fills `Kept.story`.

        The program is detached from its stream, so a broken stream does not end it.
        """
        kept = Kept()
        self._show_token(store)
        fresh = "rm -f /tmp/told /tmp/begun /tmp/stop; cat > /tmp/client.py"
        self._exec("sh", "-c", fresh, stdin=_PROGRAM.read_text())
        run = f"(python /tmp/client.py keep {store} > /tmp/draft; mv /tmp/draft /tmp/told)"
        self._exec("sh", "-c", f"{run} > /dev/null 2> /tmp/log &")
        wait_until(partial(self._content, "/tmp/begun"), 60.0)
        try:
            yield kept
        finally:  # Beside a client of the next test, its writes would look like lost ones.
            self._exec("touch", "/tmp/stop")
        kept.story = json.loads(wait_until(partial(self._content, "/tmp/told"), 330.0))
        kept.warnings = self._content("/tmp/log").splitlines()[-_WARNINGS_KEPT:]

    def _content(self, file: str) -> str:
        return self._exec("sh", "-c", f"cat {file} 2> /dev/null || true")

    def _show_token(self, store: str) -> None:
        """Writes a token for this store into the file that the program reads."""
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
    """The counts and failures of a client; `story` is None until the client has ended.

    `warnings` are the last lines of its log, with the times of the day.
    """

    story: dict[str, Any] | None = None
    warnings: Sequence[str] = ()

    def told(self) -> dict[str, Any]:
        """The story of a client that has ended."""
        assert self.story is not None, "the client has not ended"
        return self.story


def start_client(here: Cluster, image: str) -> PodClient:
    """Starts a client pod with the rights to read and write all stores of its namespace."""
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
    return [made, *bindings, idle_pod(_NAME, image, _NAME, **{"queryablestate.dev/writer": "e2e"})]


def idle_pod(name: str, image: str, account: str = "default", **labels: str) -> Object:
    """A pod with Python that does nothing by itself."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "serviceAccountName": account,
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
