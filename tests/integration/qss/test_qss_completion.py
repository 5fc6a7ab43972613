"""Completion by the Tab key, in real shells: bash always, zsh and fish where they are installed."""

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from qss_client.cli.shell.kubectl_completion import main as complete_for_kubectl
from qss_testing.clients.terminal import Program
from qss_testing.pods.pod_process import PodCluster

PROGRAMS = Path(sys.executable).parent
# Fills the variables that bash fills at a Tab, and prints what it would offer.
BASH = """
source <(qss completion bash)
complete() {
  COMP_WORDS=("$@"); COMP_CWORD=$(( $# - 1 )); COMPREPLY=()
  _qss_completion qss
  echo "${COMPREPLY[@]}"
}
"""
# A pseudo-terminal in which a line is typed up to a Tab.
ZSH = """
zmodload zsh/zpty
zpty z 'zsh -f -i'
zpty -w z "PS1=; autoload -Uz compinit; compinit -u -D; source <(qss completion zsh); echo begun"
zpty -r z seen '*begun*begun*'
zpty -w -n z $'{line}\\t'
zpty -r z seen '*{expected}*'
print -r -- "$seen"
"""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Two stores of a local cluster, and the programs of this installation on the path."""
    for name in ("words", "windows"):
        (tmp_path / ".qss" / name).mkdir(parents=True)
        (tmp_path / ".qss" / name / "status.yaml").write_text("{}\n")
    kept = {name: value for name, value in os.environ.items() if not name.startswith("QSS_")}
    return {**kept, "PATH": f"{PROGRAMS}{os.pathsep}{os.environ['PATH']}", "HOME": str(tmp_path)}


def run(program: list[str], script: str, environment: dict[str, str], directory: Path) -> list[str]:
    """The lines that a shell prints."""
    done = subprocess.run(
        program,
        input=script,
        env=environment,
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=600,
        check=True,
    )
    assert done.stderr == ""
    return done.stdout.splitlines()


def test_bash_completes_commands_stores_and_choices(
    environment: dict[str, str], tmp_path: Path
) -> None:
    lines = (
        "complete qss des",
        "complete qss get w",
        "complete qss get --state-dir .qss/none ''",
        "complete qss scan words -o cs",
        "complete qss explain NOT_RE",
        "complete qss scale wo",
        "complete qss load --store wi",
    )
    script = "\n".join([BASH, *lines])
    assert run(["bash", "--norc", "-s"], script, environment, tmp_path) == [
        "describe",
        "windows words",
        "",
        "csv",
        "NOT_READY",
        "words",
        "windows",
    ]


def test_zsh_completes_the_name_of_a_store(environment: dict[str, str], tmp_path: Path) -> None:
    if shutil.which("zsh") is None:
        # The page says that zsh is tried where it is installed.
        assert "compdef _qss_completion qss" in "\n".join(
            run(["bash", "-s"], "qss completion zsh", environment, tmp_path)
        )
        return
    script = ZSH.format(line="qss get wo", expected="words")
    assert "words" in "".join(run(["zsh", "-f"], script, environment, tmp_path))


def test_fish_completes_the_name_of_a_store(environment: dict[str, str], tmp_path: Path) -> None:
    if shutil.which("fish") is None:
        assert "complete --command qss" in "\n".join(
            run(["bash", "-s"], "qss completion fish", environment, tmp_path)
        )
        return
    script = "qss completion fish | source; complete --do-complete 'qss get w'"
    found = run(["fish", "--no-config", "-c", script], "", environment, tmp_path)
    assert sorted(line.split("\t")[0] for line in found) == ["windows", "words"]


def test_the_stores_of_a_url_are_completed(
    environment: dict[str, str], tmp_path: Path, odd_words: PodCluster
) -> None:
    lines = (f"complete qss get --url {odd_words.url} wo", "complete qss get --url http://[ wo")
    script = "\n".join([BASH, *map(str, lines)])
    assert run(["bash", "--norc", "-s"], script, environment, tmp_path) == ["words", ""]


def test_kubectl_completes_by_a_program_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "kubectl"
    items = '{"items": [{"metadata": {"name": "words"}}, {"metadata": {"name": "other"}}]}'
    file.write_text(f'#!/bin/sh\necho "$@" >> {file}.asked\necho {shlex.quote(items)}\n')
    file.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    for name in ("_QSS_COMPLETE", "COMP_WORDS", "COMP_CWORD"):
        monkeypatch.setenv(name, "")
    plugin = Program(complete_for_kubectl, capsys)
    assert plugin.run("get", "-n", "shop", "w").out.splitlines() == ["words", ":4"]
    assert Path(f"{file}.asked").read_text().split()[:2] == ["--namespace", "shop"]
    assert plugin.run("descr").out.splitlines() == ["describe", ":4"]
    assert os.access(PROGRAMS / "kubectl_complete-qss", os.X_OK)
