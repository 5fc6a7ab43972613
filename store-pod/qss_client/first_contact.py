"""The first request of a run or a command: a store that is not there is told within seconds."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from qss_client.http_sync import Patience
from qss_client.routing import RetryLimits, no_answer
from qss_core.errors import StoreError, StoreNotFoundError

Answer = TypeVar("Answer")
Ask = Callable[[str, float], Answer]  # A base URL, and the seconds that it may take.


def first_answer(ask: Ask[Answer], urls: Sequence[str], store: str, limits: RetryLimits) -> Answer:
    """What the first of the addresses answers; asks again while none does.

    Raises UnreachableError after `limits.first_contact_s`, and what no repeat mends at once.
    """
    patience = Patience(limits)
    while True:
        failures: list[StoreError] = []
        for number, url in enumerate(urls):
            left = len(urls) - number
            try:
                return ask(url, limits.share_of_first_contact(patience.elapsed_s, left))
            except StoreError as error:
                failures.append(error)
        # Pods that serve other stores will not serve this one later.
        if all(isinstance(one, StoreNotFoundError) for one in failures):
            raise failures[-1]
        patience.after(no_answer(store, failures), limits.of_first_contact(failures))
