"""The examples run: the store of the compose file, its job, and the cells of the notebook."""

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from zipfile import ZipFile

import pytest
import yaml

from qss_operator.resources.manifests import read_manifests
from qss_operator.resources.validation import validate_resource
from qss_testing.page_commands import ROOT, outputs_of_page
from qss_testing.waiting import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.long]

EXAMPLES = ROOT / "spark-jobs" / "examples"
FOLDER = EXAMPLES / "compose"
PAGE = "spark-jobs/docs/compose.md"
PROGRAMS = Path(sys.executable).parent
EXEC = "docker compose exec stores "
# One process, so that Java starts once: the job, and then the cells with the same session.
PROGRAM = """
import json, runpy, sys
notebook, job, *arguments = sys.argv[1:]
sys.argv = [job, *arguments]
runpy.run_path(job, run_name="__main__")
cells = json.load(open(notebook))["cells"]
names = {}
for cell in cells:
    if cell["cell_type"] == "code":
        exec("".join(cell["source"]), names)
"""


class Service:
    """The service of the compose file as a process, with folders for its volumes."""

    def __init__(self, directory: Path) -> None:
        (self.file,) = yaml.safe_load((FOLDER / "compose.yaml").read_text())["services"].values()
        self._folders = {"/examples": directory / "examples", "/state": directory / "state"}
        shutil.copytree(EXAMPLES, self._folders["/examples"])
        self._folders["/state"].mkdir()
        image = (FOLDER / "Dockerfile").read_text()
        (told,) = re.findall(r"QSS_STATE_DIR=(\S+)", image)
        self.environment = {**os.environ, "QSS_STATE_DIR": self._here(told)}
        self._process: subprocess.Popen[bytes] | None = None

    def _here(self, word: str) -> str:
        for inside, folder in self._folders.items():
            word = re.sub(rf"^{inside}(?=/|$)", str(folder), word)
        return word

    def command(self, words: Sequence[str]) -> list[str]:
        """A command of the container as one of this machine."""
        program, *rest = words
        return [str(PROGRAMS / program), *map(self._here, rest)]

    def start(self) -> None:
        """Starts the service, and waits until its check says that it is healthy."""
        self._process = subprocess.Popen(
            self.command(self.file["command"]),
            env=self.environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        kind, *check = self.file["healthcheck"]["test"]
        assert kind == "CMD"
        wait_until(lambda: self.run(check).returncode == 0, 60.0)

    def stop(self) -> None:
        """Ends the service as Docker does."""
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)
            self._process.wait(30)
            self._process = None

    def run(self, words: Sequence[str]) -> "subprocess.CompletedProcess[str]":
        """Runs a command of the container."""
        return subprocess.run(
            self.command(words),
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    made = Service(tmp_path)
    yield made
    made.stop()


def test_the_store_of_the_compose_file_the_job_and_the_notebook_run(service: Service) -> None:
    """A pod is killed, and the service restarts: rows stay, and further ones are written."""
    pages = outputs_of_page(PAGE)
    job, get, kill = (
        shlex.split(next(one for one in pages if one.startswith(f"{EXEC}{program}"))[len(EXEC) :])
        for program in ("python", "qss get", "qss kill")
    )
    service.start()
    notebook = "/examples/read_a_store.ipynb"
    done = service.run(["python", "-c", PROGRAM, notebook, *job[1:]])
    assert done.returncode == 0, done.stderr[-3000:]
    said = [line for line in done.stdout.splitlines() if line.strip()]
    assert "{'keys': '[\"be\"]'}" in said  # What the filter reads.
    assert said[-2:] == ["2", "2"]  # Rows of two keys, and the value of one.

    shown = pages[EXEC + " ".join(get)].split()
    assert service.run(get).stdout.split()[:5] == shown[:5]
    assert service.run(kill).returncode == 0
    assert service.run([*get, "to", "or", "not"]).stdout.split()[3::3] == ["be", "to", "or", "not"]

    service.stop()
    service.start()
    more = Path(service.environment["QSS_STATE_DIR"]).parent / "more.ndjson"
    more.write_text('{"key": "sleep", "value": 1}\n')
    done = service.run(["qss", "load", "/state/more.ndjson", "--store", "words"])
    assert done.returncode == 0, done.stderr
    assert service.run([*get, "sleep"]).stdout.split()[3:8:3] == ["be", "sleep"]


def test_the_compose_file_keeps_the_schema_of_the_specification() -> None:
    program = str(PROGRAMS / "check-jsonschema")
    command = (program, "--builtin-schema", "vendor.compose-spec", FOLDER / "compose.yaml")
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stdout


def test_the_compose_file_names_what_is_there(tmp_path: Path) -> None:
    service = Service(tmp_path).file
    build = service["build"]
    assert (FOLDER / build["context"]).resolve() == ROOT
    assert ROOT / build["dockerfile"] == FOLDER / "Dockerfile"
    mounted, state = (one.split(":") for one in service["volumes"])
    assert ((FOLDER / mounted[0]).resolve(), mounted[1:]) == (EXAMPLES, ["/examples", "ro"])
    # A new volume takes the owner of the image's folder, and the image runs as that user.
    image = (FOLDER / "Dockerfile").read_text()
    assert f"install --directory --owner 10001 --group 10001 {state[1]}\n" in image
    assert "\nUSER 10001:10001\n" in image


def test_the_image_of_the_compose_file_gets_all_that_the_package_is_built_from(
    tmp_path: Path,
) -> None:
    lines = (FOLDER / "Dockerfile.dockerignore").read_text().splitlines()
    for name in (line[1:] for line in lines if line.startswith("!")):
        source, target = ROOT / name, tmp_path / "source" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(source, target) if source.is_dir() else shutil.copy(source, target)
    command = (sys.executable, "-m", "hatchling", "build", "--target", "wheel", "-d", tmp_path)
    subprocess.run(command, cwd=tmp_path / "source", check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    names = {name.split("/")[0] for name in ZipFile(wheel).namelist()}
    assert names >= {"qss_core", "qss_client", "qss_store", "qss_operator", "qss_spark"}
    assert "qss_operator/queryablestatestores.yaml" in ZipFile(wheel).namelist()


def test_the_store_of_the_examples_is_valid() -> None:
    (manifest,) = read_manifests([EXAMPLES / "words.yaml"])
    assert validate_resource(manifest.resource)["metadata"]["name"] == "words"
