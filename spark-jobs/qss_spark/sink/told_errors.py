"""Says why a batch failed before Spark does, which prints the reason inside of long Java traces."""

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from qss_core.errors import StoreError

_LOG = logging.getLogger("qss_spark")
# The last line of the trace of an executor's Python.
_OF_EXECUTOR = re.compile(r"^qss_core\.errors\.\w+: (.+)$", re.MULTILINE)


@contextmanager
def telling_first(what: str) -> Iterator[None]:
    """Logs a store's error as one line, with its trace at the level DEBUG, and raises it again."""
    try:
        yield
    except StoreError as error:
        _LOG.error("%s: %s", what, error)
        _LOG.debug("%s", what, exc_info=True)
        raise
    except (PySparkException, Py4JError) as error:
        if said := words_of_executor(str(error)):
            _LOG.error("%s: %s", what, said)
        raise


def words_of_executor(trace: str) -> str | None:
    """The store's error in the trace of a failed job; None where another error failed it."""
    found = _OF_EXECUTOR.findall(trace)
    return found[-1] if found else None
