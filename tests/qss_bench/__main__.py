"""`python -m qss_bench [NAME...]`: runs benchmarks, prints them, writes `.bench/results.json`."""

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from qss_bench import (
    availability,
    ingest,
    learner,
    migrating,
    reads,
    report,
    scans,
    spark,
    spark_tables,
    standbys,
    storage,
)
from qss_bench.control import planner
from qss_bench.pod import memory, recovery

PARTS: dict[str, Callable[[Path], list[report.Figure]]] = {
    "reads": reads.measure,
    "scans": scans.measure,
    "migrating": migrating.measure,
    "ingest": ingest.measure,
    "recovery": recovery.measure,
    "standbys": standbys.measure,
    "availability": availability.measure,
    "learner": learner.measure,
    "planner": planner.measure,
    "spark": spark.measure,
    "storage": storage.measure,
    "memory": memory.measure,
    "spark-tables": spark_tables.measure,
}


def main() -> int:
    """Runs the named benchmarks, or all."""
    names = sys.argv[1:] or list(PARTS)
    if unknown := set(names) - PARTS.keys():
        sys.stderr.write(f"error: {sorted(unknown)}: the parts are {', '.join(PARTS)}\n")
        return 2
    figures = []
    for name in names:
        sys.stderr.write(f"{name} ...\n")
        with tempfile.TemporaryDirectory(prefix="qss-bench-") as directory:
            figures += PARTS[name](Path(directory))
    report.write(figures)
    return 0 if all(figure.holds for figure in figures) else 1


if __name__ == "__main__":
    raise SystemExit(main())
