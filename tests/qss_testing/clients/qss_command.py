"""The command `qss` as a child process over one state directory."""

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from qss_client.processes import ProcessId, is_alive
from qss_core.model import Ordinal, StoreName
from qss_operator.local.directory.state import StateDirectory
from qss_testing.clients.forked_command import run_forked

# -P: modules beside the program must not hide libraries.
FAKE_POD = (sys.executable, "-P", str(Path(__file__).parents[1] / "fakes" / "fake_pod.py"))
REAL_POD = (sys.executable, "-m", "qss_store")
STORE = StoreName("word-counts")
_RUN_S = 300.0


def manifest(name: str = STORE, annotations: Any = None, **spec: Any) -> str:
    """The resource of a store for the local cluster."""
    return yaml.dump(
        {
            "apiVersion": "queryablestate.dev/v1alpha1",
            "kind": "QueryableStateStore",
            "metadata": {"name": name, "annotations": annotations or {}},
            "spec": {
                "store": {
                    "type": "KeyValue",
                    "key": {"serde": "string"},
                    "value": {"serde": "json"},
                },
                "partitions": 6,
                "replicas": 2,
                "standbys": 0,
                "access": {"authentication": "None"},
                **spec,
            },
        },
        sort_keys=False,
    )


@dataclass(frozen=True, slots=True)
class Finished:
    """The result of a command."""

    code: int
    out: str
    err: str


@dataclass(frozen=True, slots=True)
class Qss:
    """Runs `qss` for one directory, with pods of one program; `prefix` starts `qss`."""

    directory: Path
    pod_command: tuple[str, ...] = FAKE_POD
    prefix: tuple[str, ...] = ()

    @property
    def state(self) -> StateDirectory:
        return StateDirectory(self.directory / "state")

    def write(self, *manifests: str) -> Path:
        file = self.directory / "stores.yaml"
        file.write_text("---\n".join(manifests))
        return file

    def run(self, *arguments: str) -> Finished:
        if not self.prefix:
            return Finished(*run_forked(self._with_state(*arguments), _RUN_S))
        done = subprocess.run(
            self._command(*arguments), capture_output=True, text=True, check=False, timeout=_RUN_S
        )
        return Finished(done.returncode, done.stdout, done.stderr)

    def up(self, *manifests: str, timeout_s: float = 150.0) -> Finished:
        file = self.write(*manifests or (manifest(),))
        return self.run("up", str(file), "--detach", "--timeout", str(timeout_s), *self._pods())

    def start_up(self, *manifests: str) -> "subprocess.Popen[str]":
        """`qss up` in the foreground of its own process."""
        file = self.write(*manifests or (manifest(),))
        return subprocess.Popen(
            self._command("up", str(file), *self._pods()), stdout=subprocess.PIPE, text=True
        )

    def down(self) -> Finished:
        return self.run("down")

    def status(self, store: str = STORE) -> dict[str, Any]:
        """The published resource, as `qss status` prints it."""
        done = self.run("status", store, "--output", "json")
        assert done.code == 0, done.err
        resource: dict[str, Any] = json.loads(done.out)
        return resource

    def pod(self, ordinal: int, store: StoreName = STORE) -> ProcessId | None:
        """The process of a pod, if it runs."""
        file = self.state.pod_directory(store, Ordinal(ordinal)) / "process.yaml"
        if not file.exists():
            return None
        process = ProcessId(**yaml.safe_load(file.read_text()))
        return process if is_alive(process) else None

    def living_pods(self) -> list[ProcessId]:
        """All recorded pod processes that run."""
        return [process for process in self.state.processes() if is_alive(process)]

    def ready(self, store: StoreName = STORE) -> str:
        """`ready` of the published status, read without a command."""
        status = self.state.read_status(store)
        return (status.ready if status else None) or ""

    def assigned(self, store: StoreName = STORE) -> str:
        """`assigned` of the published status."""
        status = self.state.read_status(store)
        return (status.assigned if status else None) or ""

    def _pods(self) -> tuple[str, str]:
        return "--pod-command", " ".join(self.pod_command)

    def _command(self, *arguments: str) -> list[str]:
        program = [*self.prefix, sys.executable, "-m", "qss_client"]
        return [*program, *self._with_state(*arguments)]

    def _with_state(self, *arguments: str) -> list[str]:
        return [*arguments, "--state-dir", str(self.state.path)]
