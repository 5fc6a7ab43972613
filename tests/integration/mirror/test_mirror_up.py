"""Two commands, and the state of a query that nobody changed is asked: `--up`, then `--file`."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.long

FILES = Path(__file__).parents[2] / "contract" / "spark_state" / "4.3.0"
LIMIT_S = 120.0


def test_two_commands_make_the_state_of_a_query_queryable(tmp_path: Path) -> None:
    with zipfile.ZipFile(FILES / "windows-rocksdb.zip") as archive:
        archive.extractall(tmp_path / "open")

    def qss(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "qss_client", *arguments],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
            timeout=LIMIT_S,
        )

    try:
        started = qss("mirror", "open", "--up")
        assert started.returncode == 0, started.stderr
        command = started.stdout.splitlines()[-1]
        assert command == "now: qss mirror open --file open-mirror.yaml"
        copied = qss(*command.split()[2:], "--once")
        assert copied.stdout.startswith("open: batch 3: the whole state, 5 rows, "), copied.stderr
        shown = qss("windows", "open", "k0")
        assert shown.returncode == 0, shown.stderr
        assert "k0" in shown.stdout
        again = qss("mirror", "open", "--up")
        assert (
            again.returncode,
            "open-stores.yaml cannot be made: File exists" in again.stderr,
        ) == (
            2,
            True,
        )
    finally:
        assert qss("down").returncode == 0
