"""The first request of a run or a command: a missing store is reported within seconds."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from qss_client.http.retries import RetryLimits, no_answer
from qss_client.http.sync_http import Retrier
from qss_client.http.wait_warnings import WaitWarnings
from qss_core.errors import StoreError, StoreNotFoundError

Answer = TypeVar("Answer")
# Called with a base URL, a timeout in seconds, and the warnings of a long wait.
Ask = Callable[[str, float, WaitWarnings], Answer]


def first_answer(ask: Ask[Answer], urls: Sequence[str], store: str, limits: RetryLimits) -> Answer:
    """The first answer of any address; repeats the round while no address answers.

    Raises UnreachableError after `limits.first_contact_s`, and errors that no repeat mends at once.
    """
    retrier = Retrier(limits)
    while True:
        failures: list[StoreError] = []
        for number, url in enumerate(urls):
            left = len(urls) - number
            try:
                timeout_s = limits.share_of_first_contact(retrier.elapsed_s, left)
                return ask(url, timeout_s, retrier.telling)
            except StoreError as error:
                failures.append(error)
        # Pods of other stores will not serve this one later.
        if all(isinstance(one, StoreNotFoundError) for one in failures):
            raise failures[-1]
        retrier.after(no_answer(store, failures), limits.of_first_contact(failures))
