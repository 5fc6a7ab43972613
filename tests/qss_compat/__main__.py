"""`python -m qss_compat [VERSION...]`: a line for each PySpark; exit code 1 if one fails."""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from qss_client import Store
from qss_compat.environments import ROOT, environment
from qss_compat.job import BATCHES, ROWS
from qss_compat.versions import VERSIONS, has_data_sources
from qss_testing.pods.pod_process import PodCluster

_JOB_S = 600.0
_CODE = [str(ROOT / name) for name in ("store-pod", "spark-jobs", "tests")]


def main() -> int:
    """Tries each PySpark; returns the exit code."""
    failed = 0
    for version in sys.argv[1:] or VERSIONS:
        tell(f"PySpark {version}: making its environment, some minutes")
        with environment(version) as python:
            began = time.monotonic()
            wrong = tried(version, python)
        what = "sink and data source" if has_data_sources(version) else "sink"
        took = f"{time.monotonic() - began:.0f} s"
        tell(f"PySpark {version}: {wrong or f'{what} work'} ({took})")
        failed += wrong is not None
    return 1 if failed else 0


def tell(line: str) -> None:
    """Shows a line at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def tried(version: str, python: Path) -> str | None:
    """Runs the job with a PySpark; what is wrong, or None."""
    with (
        tempfile.TemporaryDirectory(prefix="qss-compat-") as directory,
        PodCluster(Path(directory) / "pods", partitions=4) as cluster,
    ):
        arguments = [cluster.url, cluster.store, str(Path(directory) / "job")]
        ended = subprocess.run(
            [str(python), "-m", "qss_compat.job", *arguments],
            capture_output=True,
            text=True,
            timeout=_JOB_S,
            check=False,
            env={**os.environ, "PYTHONPATH": ":".join(_CODE)},
        )
        if ended.returncode:
            sys.stderr.write(ended.stderr[-4000:])
            return f"its job ended with {ended.returncode}"
        with Store(cluster.url, cluster.store) as store:
            found = {row.key: row.value for row in store.range()}
    return _wrong(found, json.loads(ended.stdout.splitlines()[-1]), version)


def _wrong(found: dict[str, Any], seen: dict[str, Any], version: str) -> str | None:
    wanted: dict[str, Any] = {
        f"{collect}/{number}": {"n": BATCHES, "last": str(number)}
        for collect in ("always", "never")
        for number in range(ROWS)
    }
    said: dict[str, Any] = {}
    if has_data_sources(version):
        wanted |= {f"table/{number}": {"n": number} for number in range(ROWS)}
        said = {"equal": True, "narrowed": {"keys": '["table/7"]'}, "rows": [7], "partitions": 1}
    if found != wanted:
        return f"{sum(found.get(key) != value for key, value in wanted.items())} rows are wrong"
    return None if seen == said else f"it read {seen}, not {said}"


if __name__ == "__main__":
    sys.exit(main())
