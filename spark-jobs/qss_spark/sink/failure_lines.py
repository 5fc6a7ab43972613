"""Prints the reason why a batch failed, which Spark prints later inside of long Java traces."""

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from qss_core.errors import StoreError

_LOG = logging.getLogger("qss_spark")
# Python prints the causes of an error before it, each with a trace; frames are indented.
_TRACE = "Traceback (most recent call last):\n"
_CAUSES_THE_NEXT = "The above exception was the direct cause of the following exception:"
_RAISED = re.compile(r"^\S.*$", re.MULTILINE)
_OF_STORE = re.compile(r"qss_core\.errors\.\w+: (.+)")


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
    """The store's error that failed a job, or that caused the error which did; None without one.

    A store's error that was handled before another one was raised has failed nothing.
    """
    for number, part in enumerate(reversed(trace.split(_TRACE)[1:])):
        if number and not part.rstrip().endswith(_CAUSES_THE_NEXT):
            return None
        raised = _RAISED.search(part)
        if raised is not None and (found := _OF_STORE.match(raised[0])):
            return found[1]
    return None
