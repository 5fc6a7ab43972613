"""The examples run: the first job, and the cells of the notebook behind it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from qss_operator.resources.manifests import read_manifests
from qss_operator.resources.validation import validate_resource
from qss_testing.pods.pod_process import PodCluster

pytestmark = [pytest.mark.spark, pytest.mark.long]

EXAMPLES = Path(__file__).parents[2] / "spark-jobs" / "examples"
# One process, so that Java starts once: the job, and then the cells with the same session.
PROGRAM = """
import json, runpy, sys
job, notebook, *sys.argv[1:] = sys.argv[1:]
runpy.run_path(job, run_name="__main__")
cells = json.load(open(notebook))["cells"]
names = {}
for cell in cells:
    if cell["cell_type"] == "code":
        exec("".join(cell["source"]), names)
"""


def test_the_first_job_and_the_notebook_run(words: PodCluster, tmp_path: Path) -> None:
    lines = tmp_path / "lines"
    lines.mkdir()
    (lines / "hamlet").write_text("to be or not to be\n\n")
    files = [str(EXAMPLES / name) for name in ("word_count.py", "read_a_store.ipynb")]
    arguments = [*files, str(lines), str(tmp_path / "checkpoint"), "--url", words.url]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        env={**os.environ, "QSS_URL": words.url},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    said = [line for line in done.stdout.splitlines() if line.strip()]
    assert "{'keys': '[\"be\"]'}" in said  # What the filter reads.
    assert said[-2:] == ["2", "2"]  # Rows of two keys, and the value of one.


def test_the_store_of_the_examples_is_valid() -> None:
    (manifest,) = read_manifests([EXAMPLES / "words.yaml"])
    assert validate_resource(manifest.resource)["metadata"]["name"] == "words"
