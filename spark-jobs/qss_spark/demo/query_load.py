"""Queries a store and counts its rows again and again, while the demo writes into it."""

import math
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace

from qss_client import Store
from qss_core.errors import StoreError

_PAUSE_S = 0.125  # A terminal shows eight answers a second.
_COUNT_INTERVAL_S = 1.0


@dataclass(frozen=True, slots=True)
class Answered:
    """The newest answer, and the numbers of answers and failures."""

    count: int = 0
    failures: int = 0
    text: str = "waiting for the first answer"
    rows: int | None = None  # The rows of the store; None before the first count.


class QueryLoad:
    """Queries in a thread of its own until it is stopped."""

    def __init__(self, url: str, store: str, writer: str, ask: Callable[[Store], str]) -> None:
        """`ask` runs one query and returns a text.

        `writer` names the `@batch.` component of the position that has the batch number.
        """
        self._url = url
        self._store = store
        self._topic = f"@batch.{writer}"
        self._ask_once = ask
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.newest = Answered()

    def __enter__(self) -> "QueryLoad":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join(timeout=30)

    def _run(self) -> None:
        with Store(self._url, self._store) as store:
            counted_at = -math.inf
            while not self._ended.wait(_PAUSE_S):
                self._ask(store)
                if time.monotonic() - counted_at >= _COUNT_INTERVAL_S:
                    self._count(store)
                    counted_at = time.monotonic()
            self._count(store)

    def _count(self, store: Store) -> None:
        with suppress(StoreError):  # The next count tries again.
            self.newest = replace(self.newest, rows=store.count(exact=True))

    def _ask(self, store: Store) -> None:
        seen = self.newest
        started = time.perf_counter()
        try:
            said = self._ask_once(store)
        except StoreError as error:
            self.newest = replace(seen, failures=seen.failures + 1, text=error.code)
            return
        milliseconds = (time.perf_counter() - started) * 1000
        batch = store.position.offset_of(self._topic, 1)
        at = "" if batch is None else f", at batch {batch}"
        text = f"{said} ({milliseconds:.1f} ms{at})"
        self.newest = replace(seen, count=seen.count + 1, text=text)
