"""`python -m qss_store`: the program of a store pod."""

from qss_core.early_stop import end_at_once_if_told_to_stop

end_at_once_if_told_to_stop()

from qss_store.program import main  # noqa: E402 a pod that still imports ends at SIGTERM.

if __name__ == "__main__":
    main()
