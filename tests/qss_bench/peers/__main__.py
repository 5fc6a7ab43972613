"""`python -m qss_bench.peers [reads] [writes] [kills]`: see the package; by default all three."""

import signal
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from qss_bench import report
from qss_bench.peers import kills, reads, writes
from qss_bench.peers.needs import missing
from qss_bench.peers.tables import Table
from qss_bench.report import Figure

Part = Callable[[Path], tuple[list[Table], list[Figure]]]
PARTS: dict[str, tuple[set[str], Part]] = {
    "reads": (reads.NEEDS, reads.measure),
    "writes": (writes.NEEDS, writes.measure),
    "kills": (kills.NEEDS, kills.measure),
}
TABLES = Path(".bench/peers.md")


def main() -> int:
    """Runs the named parts; 1 where a target is missed, 2 where the machine lacks a program."""
    names = sys.argv[1:] or list(PARTS)
    if unknown := set(names) - PARTS.keys():
        sys.stderr.write(f"error: {sorted(unknown)}: the parts are {', '.join(PARTS)}\n")
        return 2
    if lack := missing(set().union(*(PARTS[name][0] for name in names))):
        sys.stderr.write(f"error: {lack}\n")
        return 2
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # The servers end with this process.
    tables: list[Table] = []
    figures: list[Figure] = []
    for name in names:
        sys.stderr.write(f"{name} ...\n")
        with tempfile.TemporaryDirectory(prefix="qss-peers-") as directory:
            some, more = PARTS[name][1](Path(directory))
        sys.stdout.write("".join(f"{table.markdown()}\n" for table in some))
        tables += some
        figures += more
    TABLES.parent.mkdir(exist_ok=True)
    TABLES.write_text("\n".join(table.markdown() for table in tables))
    report.show(figures)
    return 0 if all(figure.holds for figure in figures) else 1


if __name__ == "__main__":
    raise SystemExit(main())
