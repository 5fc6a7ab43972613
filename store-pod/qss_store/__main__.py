"""`python -m qss_store`: the program of a store pod."""

import gc

from qss_core.early_stop import end_at_once_if_told_to_stop

end_at_once_if_told_to_stop()
gc.disable()  # A tenth of the imports' time would go into looking for garbage, and there is none.

from qss_store.program import main  # noqa: E402 a pod that still imports ends at SIGTERM.

gc.enable()

if __name__ == "__main__":
    main()
