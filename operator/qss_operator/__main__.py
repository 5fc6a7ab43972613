"""`python -m qss_operator`: the operator on Kubernetes."""

import asyncio
import logging
import os

from qss_core.early_stop import end_at_once_if_told_to_stop

end_at_once_if_told_to_stop()

# ruff: noqa: E402 an operator that still imports ends at SIGTERM.
from qss_client.log_format import configure_log
from qss_operator.kubernetes.program import run_operator
from qss_operator.kubernetes.settings import parse_settings


def main() -> None:
    """Parses the command line and runs."""
    settings = parse_settings()
    configure_log(settings.log_format, settings.log_level)
    # `watches` reports failures of kopf's watches once a minute instead.
    if settings.log_level != "debug":
        logging.getLogger("kopf").setLevel(logging.CRITICAL)
    if settings.kubeconfig is not None:
        os.environ["KUBECONFIG"] = settings.kubeconfig  # For the watches, which have their own way.
    asyncio.run(run_operator(settings))


if __name__ == "__main__":
    main()
