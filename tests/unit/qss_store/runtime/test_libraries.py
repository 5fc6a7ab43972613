"""A pod refuses to start with versions of libraries that it was not made for."""

import os
import re
import subprocess
import sys
from pathlib import Path

import aiohttp
import pytest

from qss_store.runtime.process.libraries import LibraryError, check_libraries

PROJECT = Path(__file__).parents[4] / "pyproject.toml"


def test_the_installed_libraries_are_those_of_the_project() -> None:
    check_libraries()
    pinned = re.search(r'"aiohttp~=(\d+\.\d+)\.\d+"', PROJECT.read_text())
    assert pinned
    assert aiohttp.__version__.startswith(f"{pinned[1]}.")


@pytest.mark.parametrize("version", ["3.15.0", "3.13.9", "4.0.0", "3.140.1", "nightly"])
def test_another_version_is_refused_by_its_name(version: str) -> None:
    with pytest.raises(LibraryError, match=rf"^aiohttp {version} .* needs aiohttp 3\.14: pip"):
        check_libraries(lambda _: version)


def test_a_pod_names_another_version_also_where_importing_it_would_fail(tmp_path: Path) -> None:
    (tmp_path / "aiohttp-3.15.0.dist-info").mkdir()
    metadata = "Metadata-Version: 2.1\nName: aiohttp\nVersion: 3.15.0\n"
    (tmp_path / "aiohttp-3.15.0.dist-info" / "METADATA").write_text(metadata)
    (tmp_path / "aiohttp.py").write_text("raise ImportError('it has other members')\n")
    done = subprocess.run(
        [sys.executable, "-m", "qss_store"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
    )
    assert done.returncode == 2
    assert done.stderr.startswith("aiohttp 3.15.0 is installed, and a store pod needs aiohttp 3.14")
