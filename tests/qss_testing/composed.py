"""The services of a compose file as processes of this machine, without Docker.

Each service has a loopback address of its own, for which its name stands, so that all of them may
listen on the ports of the file. The program of an image is that of this environment, and a volume
is a folder.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
_START_S = 240.0
_ENTRYPOINT = re.compile(r"^ENTRYPOINT (\[.*\])$", re.MULTILINE)


class Composed:
    """The services of a file, whose folder is copied into `directory` for the run."""

    def __init__(self, file: Path, directory: Path) -> None:
        self.services: dict[str, dict[str, Any]] = yaml.safe_load(file.read_text())["services"]
        self._directory = directory
        self._context = file.parent
        number = os.getpid()
        self.addresses = {
            name: f"127.{number >> 14 & 63 | 64}.{number >> 7 & 127}.{2 * (number & 127) + place}"
            for place, name in enumerate(self._listening(), start=1)
        }
        self._running: list[subprocess.Popen[bytes]] = []

    def _listening(self) -> list[str]:
        listening = [name for name, one in self.services.items() if "healthcheck" in one]
        assert len(listening) <= 2, "an address of each process has room for two services"
        return listening

    def here(self, text: str, service: str) -> str:
        """A text of the file as it holds on this machine: addresses, the program, folders."""
        for name, address in self.addresses.items():
            text = text.replace(f"//{name}:", f"//{address}:")
        own = self.addresses.get(service, "127.0.0.1")
        text = text.replace("0.0.0.0", own).replace("//127.0.0.1:", f"//{own}:")
        for mounted in self.services[service].get("volumes", ()):
            source, target = mounted.split(":")[:2]
            if text == target or text.startswith(f"{target}/"):
                return str(self._folder(source)) + text.removeprefix(target)
        return {
            "python": sys.executable,
            "/opt/entrypoint.sh": f"{ROOT}/spark-jobs/entrypoint.sh",
        }.get(text, text)

    def _folder(self, source: str) -> Path:
        """The folder of a named volume; of a mounted one a copy, in which addresses hold here."""
        if not source.startswith("."):
            folder = self._directory / "volumes" / source
            folder.mkdir(parents=True, exist_ok=True)
            return folder
        copied = self._directory / "mounted"
        if not copied.exists():
            shutil.copytree((self._context / source).resolve(), copied)
            for file in copied.rglob("*.json"):
                text = file.read_text()
                for name, address in self.addresses.items():
                    text = text.replace(f"//{name}:", f"//{address}:")
                file.write_text(text)
        return copied

    def command(self, service: str) -> list[str]:
        """The program and arguments of a service."""
        one = self.services[service]
        entrypoint = one.get("entrypoint") or entrypoint_of(one)
        return [self.here(word, service) for word in (*entrypoint, *one.get("command", ()))]

    def environment(self, service: str) -> dict[str, str]:
        given: Mapping[str, str] = self.services[service].get("environment", {})
        return {**os.environ, **given}

    def start(self, service: str) -> None:
        """Starts a service that goes on; its output goes into a file."""
        log = (self._directory / f"{service}.log").open("ab")
        with log:
            process = subprocess.Popen(
                self.command(service), stdout=log, stderr=log, env=self.environment(service)
            )
        self._running.append(process)

    def is_healthy(self, service: str) -> bool:
        """Whether the check of the file succeeds. Fails where the service has ended."""
        assert all(one.poll() is None for one in self._running), "a service has ended"
        kind, *check = self.services[service]["healthcheck"]["test"]
        assert kind == "CMD"
        command = [self.here(word, service) for word in check]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0

    def run(self, service: str) -> str:
        """Runs a service that ends; returns what it printed. Fails where it fails."""
        done = subprocess.run(
            self.command(service),
            env=self.environment(service),
            capture_output=True,
            text=True,
            timeout=_START_S,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-3000:]
        return done.stdout

    def stop(self) -> None:
        """Ends the services that run."""
        for process in self._running:
            process.terminate()
        for process in self._running:
            process.wait()
        self._running = []


def entrypoint_of(service: Mapping[str, Any]) -> list[str]:
    """The program of the service's image, by its Dockerfile."""
    found = _ENTRYPOINT.findall((ROOT / service["build"]["dockerfile"]).read_text())
    words: list[str] = json.loads(found[-1])
    return words
