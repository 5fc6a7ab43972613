"""`python -m qss_spark.mirroring CHECKPOINT FILE`: the mirror as a program of a container.

It does what `qss mirror --file` does, waits for the first batch and for pods that do not answer,
and ends with SIGTERM behind a whole batch. It needs the extra `mirror`, and not the extra `cli`.
"""

import argparse
import logging
import signal
import sys
import threading
from pathlib import Path

import msgspec

from qss_core.errors import StoreError
from qss_spark.mirroring.driver import DIRECTORY_WAIT_S, mirror
from qss_spark.mirroring.wanted_copies import read_wanted

_LOOK_S = 1.0
_END_S = 25.0  # Kubernetes kills 30 s after SIGTERM.


def main() -> int:
    """Copies until SIGTERM or SIGINT; the exit code is 1 where an error ended it."""
    parser = argparse.ArgumentParser(prog="qss_spark.mirroring", description=__doc__)
    parser.add_argument("checkpoint", type=Path, help="the checkpoint directory of the query")
    parser.add_argument("file", type=Path, help="the stores, as for `qss mirror --file`")
    parser.add_argument("--metrics-port", type=int, help="serve /metrics there")
    parser.add_argument(
        "--directory-wait-s",
        type=float,
        default=DIRECTORY_WAIT_S,
        help="seconds to wait until the directory is a checkpoint (default: %(default)g)",
    )
    given = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    stopped = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopped.set())
    try:
        wanted = read_wanted(given.file)
        stores = {
            one.store: {
                name: value
                for name, value in msgspec.to_builtins(one).items()
                if name != "store" and value is not None
            }
            for one in wanted.stores
        }
        running = mirror(
            given.checkpoint,
            stores,
            writer=wanted.writer,
            directory_wait_s=given.directory_wait_s,
        )
        if given.metrics_port is not None:
            running.metrics.serve(given.metrics_port)
        while running.is_running and not stopped.wait(_LOOK_S):
            pass
        running.stop(_END_S, copies_rest=False)
    except (StoreError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)  # noqa: T201 it is a program.
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
