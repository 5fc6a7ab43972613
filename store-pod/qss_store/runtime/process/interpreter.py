"""Settings of the Python interpreter for a process that answers requests."""

import gc
import sys

_SWITCH_S = 0.0005


def tune_interpreter() -> None:
    """Tunes the interpreter; call it once, after all lasting objects were made.

    A request makes hundreds of objects and no cycles: searching for cycles takes a tenth of its
    time. The event loop waits for the interpreter's lock while another thread runs Python: with
    Python's own 5 ms that would be most of a point read's time.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)
    sys.setswitchinterval(_SWITCH_S)
