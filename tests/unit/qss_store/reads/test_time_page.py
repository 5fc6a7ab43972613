"""The first rows by time, kept in bounded memory."""

from hypothesis import given
from hypothesis import strategies as st

from qss_store.reads.scans.time_bounds import TimeOrder
from qss_store.reads.scans.time_page import TimePage


def order(number: int) -> TimeOrder:
    return number.to_bytes(8, "big"), b"", b"", 0


ROWS = st.lists(
    st.tuples(st.integers(0, 1000), st.integers(0, 50)), unique_by=lambda row: row[0], max_size=60
)


@given(rows=ROWS, limit=st.integers(1, 10), size_max=st.integers(1, 200), reverse=st.booleans())
def test_a_page_is_the_first_rows_under_both_limits(
    rows: list[tuple[int, int]], limit: int, size_max: int, reverse: bool
) -> None:
    page: TimePage[int] = TimePage(limit, size_max, reverse=reverse)
    for number, size in rows:
        page.add(order(number), size, number)
    given_out = [number for _, number in page.rows()]
    in_order = sorted(rows, reverse=reverse)
    assert given_out == [number for number, _ in in_order[: len(given_out)]], "a whole stretch"
    assert len(given_out) <= limit
    assert page.is_cut is (len(given_out) < len(rows))
    sizes = [size for _, size in in_order[: len(given_out)]]
    assert len(sizes) == 1 or sum(sizes) <= size_max
    assert bool(given_out) is bool(rows), "one row at least"


def test_rows_are_kept_to_twice_the_page() -> None:
    page: TimePage[int] = TimePage(5, 1000, reverse=False)
    for number in range(10_000, 0, -1):
        page.add(order(number), 1, number)
        assert len(page.kept) < 10
    assert [number for _, number in page.rows()] == [1, 2, 3, 4, 5]


def test_bytes_are_kept_to_twice_the_page_and_a_row() -> None:
    page: TimePage[int] = TimePage(1000, 100, reverse=True)
    for number in range(1000):
        page.add(order(number), 30, number)
        assert page.bytes_kept < 200
    assert [number for _, number in page.rows()] == [999, 998, 997]


def test_what_is_not_known_whole_is_not_given() -> None:
    page: TimePage[int] = TimePage(10, 1000, reverse=False)
    for number in (5, 1, 3, 9):
        page.add(order(number), 1, number)
    assert not page.is_cut
    page.end_at(order(5))
    assert [number for _, number in page.rows()] == [1, 3, 5]
    assert page.is_cut
