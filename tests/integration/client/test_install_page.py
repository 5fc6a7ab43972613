"""The commands of the page on installing, in an empty environment.

Those of Helm are run by `e2e/test_install_page.py`.
"""

import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from qss_testing.page_commands import ROOT, outputs_of_page, words_of

pytestmark = pytest.mark.long

PAGE = "store-pod/docs/install.md"
COMMANDS = outputs_of_page(PAGE)
UV = str(Path(sys.executable).parent / "uv")
# Packages come from uv's cache: a test loads nothing down.
OFFLINE = ("--quiet", "--offline", "--constraints", str(ROOT / "requirements.lock"))
ELSEWHERE = ("make ", "docker ", "helm ")
# kubectl starts the program on the path whose name begins with kubectl-.
KUBECTL = '#!/bin/sh\nprogram=kubectl-$1\nshift\nexec "$program" "$@"\n'


class Place:
    """A directory with `dist`, `words.yaml` and an empty environment, which is on the path."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.python = directory / "environment" / "bin" / "python"
        self._variables = {
            **os.environ,
            "PATH": f"{self.python.parent}{os.pathsep}{os.environ['PATH']}",
        }
        # Of what `make dist` makes the commands here need the wheel alone.
        build = (sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory")
        dist = (*build, str(directory / "dist"))
        subprocess.run(dist, cwd=ROOT, check=True, capture_output=True, timeout=600)
        empty = (UV, "venv", "--quiet", "--python", sys.executable, self.python.parents[1])
        subprocess.run(empty, check=True, timeout=600)
        words = (ROOT / "spark-jobs/examples/words.yaml").read_text()
        (directory / "words.yaml").write_text(words)
        kubectl = self.python.with_name("kubectl")
        kubectl.write_text(KUBECTL)
        kubectl.chmod(0o755)

    def run(self, command: str) -> str:
        """What a command of the page prints."""
        program, *rest = shlex.split(command) if command.startswith("pip ") else [""]
        words = ["bash", "-c", command]
        if program:
            words = [UV, "pip", *rest, "--python", str(self.python)]
            words += OFFLINE if rest[0] == "install" else ("--quiet",)
            words += ["--dry-run"] if "[spark]" in command else []  # 1 GB of files.
        done = subprocess.run(
            words,
            cwd=self.directory,
            env=self._variables,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        assert done.returncode == 0, f"{command}: {done.stderr[-3000:]}"
        return done.stdout


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    made = Place(tmp_path)
    yield made
    if made.python.with_name("qss").exists():  # Where a command failed, the pods may run.
        made.run("qss down")


def test_the_commands_of_this_machine_print_what_the_page_says(place: Place) -> None:
    for command, output in COMMANDS.items():
        if not command.startswith(ELSEWHERE):
            assert words_of(place.run(command)) == words_of(output), command
    assert not (place.directory / ".qss").exists()
    listed = subprocess.run(
        [UV, "pip", "list", "--python", place.python], capture_output=True, text=True, check=True
    )
    assert "queryable-state" not in listed.stdout


def test_the_commands_of_other_programs_name_files_and_values_of_this_tree() -> None:
    values = yaml.safe_load((ROOT / "charts/queryable-state/values.yaml").read_text())
    asked = [command for command in COMMANDS if command.startswith(ELSEWHERE)]
    asked += [line for output in COMMANDS.values() for line in output.splitlines()]
    text = "\n".join(asked)
    for dockerfile in re.findall(r"--file (\S+)", text):
        assert (ROOT / dockerfile).is_file()
    set_here = re.findall(r"[\s,]([\w.]+)=REGISTRY", text)
    assert set_here == ["image.repository", "storeImage.repository"]
    for name in set_here:
        block, member = name.split(".")
        assert member in values[block]
    assert "\ndist:" in (ROOT / "Makefile").read_text()


def test_the_page_names_all_extras_and_pythons() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    page = (ROOT / PAGE).read_text()
    assert set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)) == {
        *project["optional-dependencies"]
    }
    assert f"Python {project['requires-python'].removeprefix('>=')} to " in page
