"""Spark's own reader of state, as a program: `python -m qss_bench.mirrored.reader CHECKPOINT`."""

import sys

from qss_spark.session import SHORT_RUN, local_session


def main() -> None:
    """Reads every row of the only part of the newest batch, and drops it."""
    session = local_session("reader", configuration=SHORT_RUN)
    frame = session.read.format("statestore").load(sys.argv[1])
    frame.write.format("noop").mode("append").save()
    session.stop()


if __name__ == "__main__":
    main()
