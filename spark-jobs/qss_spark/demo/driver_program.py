"""The program of the demo's driver: runs the jobs from its standard input one after the other.

A line of standard input has a job's script and arguments as JSON. The program ends with the first
job that fails.
"""

import json
import runpy
import sys

ENDED = "the job has ended"  # Printed after each job.


def main() -> None:
    """Runs jobs until the end of the input."""
    for line in sys.stdin:
        sys.argv = json.loads(line)
        try:
            runpy.run_path(sys.argv[0], run_name="__main__")
        except SystemExit as end:
            if end.code:
                raise
        sys.stdout.write(f"\n{ENDED}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
