"""Settings of the Python interpreter for a process that answers requests."""

import gc
import sys

_SWITCH_S = 0.0005


def tune_interpreter() -> None:
    """Called once, when everything that stays was made.

    A request makes hundreds of objects and no cycles: looking for cycles costs a tenth of it.
    The event loop waits for the interpreter's lock while another thread runs Python: Python's own
    5 ms would be most of what a point read takes.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)
    sys.setswitchinterval(_SWITCH_S)
