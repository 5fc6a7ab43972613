"""Counts which requests the fast path of a pod answers."""

from typing import Any

from qss_store.http.connection.protocol import FastPath


class CountedFastPath:
    """A fast path that notes for each request whether it answered."""

    def __init__(self, inner: FastPath, answered: list[bool]) -> None:
        self._inner = inner
        self._answered = answered

    def frame(self, data: bytes) -> Any:
        return self._inner.frame(data)

    def answer(self, frame: Any) -> bytes | None:
        found = self._inner.answer(frame)
        self._answered.append(found is not None)
        return found
