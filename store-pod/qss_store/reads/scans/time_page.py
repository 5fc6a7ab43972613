"""The first rows by time, in memory that the page's limits bound. Pure.

Rows are stored by key. A page by time scans all of them, and keeps the first ones; nothing is
sorted on disk. All dropped rows come after all kept ones, so a page has no gaps.
"""

from typing import Generic, TypeVar

from qss_store.reads.scans.time_bounds import TimeOrder

Payload = TypeVar("Payload")


class TimePage(Generic[Payload]):
    """The first rows in time order, within a number of rows and of bytes, but at least one."""

    def __init__(self, rows_max: int, bytes_max: int, *, reverse: bool) -> None:
        """With `reverse` it keeps the last rows, from the last on."""
        self._rows_max = rows_max
        self._bytes_max = bytes_max
        self._reverse = reverse
        self.kept: list[tuple[TimeOrder, int, Payload]] = []
        self.bytes_kept = 0
        self._fence: TimeOrder | None = None  # Rows after it cannot be in the page.
        self.is_cut = False  # Whether a row was dropped.

    def wants(self, order: TimeOrder) -> bool:
        """Whether a row may be in the page."""
        fence = self._fence
        if fence is None:
            return True
        return order > fence if self._reverse else order < fence

    def add(self, order: TimeOrder, size: int, payload: Payload) -> None:
        """Adds a row of `size` bytes."""
        if not self.wants(order):
            self.is_cut = True
            return
        self.kept.append((order, size, payload))
        self.bytes_kept += size
        if len(self.kept) >= 2 * self._rows_max or self.bytes_kept >= 2 * self._bytes_max:
            self._cut()

    def end_at(self, order: TimeOrder) -> None:
        """Drops the rows after `order`, since not all rows after it are known."""
        inside = [one for one in self.kept if not self._is_behind(one[0], order)]
        self.is_cut = self.is_cut or len(inside) < len(self.kept)
        self.kept = inside
        self.bytes_kept = sum(size for _, size, _ in inside)

    def rows(self) -> list[tuple[TimeOrder, Payload]]:
        self._cut()
        return [(order, payload) for order, _, payload in self.kept]

    def _is_behind(self, order: TimeOrder, other: TimeOrder) -> bool:
        return order < other if self._reverse else order > other

    def _cut(self) -> None:
        self.kept.sort(key=lambda one: one[0], reverse=self._reverse)
        count = total = 0
        for _, size, _ in self.kept:
            # At least one row: with an empty page a query would never advance.
            if count and (count >= self._rows_max or total + size > self._bytes_max):
                break
            count, total = count + 1, total + size
        if count < len(self.kept):
            self.is_cut = True
            del self.kept[count:]
            self._fence = self.kept[-1][0]
        self.bytes_kept = total
