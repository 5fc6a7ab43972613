"""The program `kubectl_complete-qss`, which kubectl starts to complete `kubectl qss`."""

import os
import shlex
import sys
from collections.abc import Sequence

from qss_client.cli.plugin import main as run_plugin
from qss_client.cli.shell.tab import VARIABLE

# The directive of kubectl's completion (cobra) that adds no names of files.
_NO_FILES = ":4"


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints the completions of the last word, a line each, and the directive; ends the process."""
    words = list(sys.argv[1:] if arguments is None else arguments) or [""]
    os.environ |= {
        VARIABLE: "complete_bash",
        "COMP_WORDS": shlex.join(["qss", *words]),
        "COMP_CWORD": str(len(words)),
    }
    try:
        run_plugin([])
    finally:
        sys.stdout.write(f"{_NO_FILES}\n")
        sys.stdout.flush()
