"""The program of the demo's driver: runs the jobs that it is told of, one after the other.

A line of standard input is a job: its script and its arguments, as JSON. Ends with the first job
that fails, as that does.
"""

import json
import runpy
import sys

ENDED = "the job has ended"  # Said after each.


def main() -> None:
    """Until there is no more input."""
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
