"""The number of rows that a scan reads at a time."""

from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

from qss_store.reads.scans.read_ahead import ReadAhead

Rows = list[tuple[bytes, bytes]]
BYTES_MAX = 100


def rows_of(sizes: list[int]) -> Rows:
    return [(b"%04d" % number, bytes(size)) for number, size in enumerate(sizes)]


def one_by_one(rows: Rows, rows_max: int) -> Iterator[Rows]:
    """The rows up to the first with which the limit of rows or bytes is reached."""
    taken: Rows = []
    size = 0
    for key, row in rows:
        taken.append((key, row))
        size += len(key) + len(row)
        if len(taken) == rows_max or size >= BYTES_MAX:
            yield taken
            taken, size = [], 0
    if taken:
        yield taken


@given(
    st.lists(st.integers(0, 10) | st.integers(0, 300), max_size=200),
    st.integers(1, 50),
)
def test_rows_are_taken_up_to_both_limits(sizes: list[int], rows_max: int) -> None:
    rows = rows_of(sizes)
    ahead = ReadAhead(iter(rows), BYTES_MAX)
    for expected in one_by_one(rows, rows_max):
        assert not ahead.is_over
        assert [*zip(*ahead.take(rows_max), strict=True)] == expected
    assert ahead.is_over
    assert ahead.take(rows_max) == ([], [])


@given(st.lists(st.integers(0, 60), min_size=1, max_size=50), st.data())
def test_what_is_put_back_comes_again(sizes: list[int], data: st.DataObject) -> None:
    rows = rows_of(sizes)
    ahead = ReadAhead(iter(rows), BYTES_MAX)
    found: Rows = []
    while not ahead.is_over:
        keys, values = ahead.take(20)
        kept = data.draw(st.integers(1, len(keys)))
        ahead.put_back(keys[kept:], values[kept:])
        found += zip(keys[:kept], values[:kept], strict=True)
    assert found == rows


def test_large_rows_are_not_read_long_before_they_are_taken() -> None:
    read = 0

    def rows() -> Iterator[tuple[bytes, bytes]]:
        nonlocal read
        for row in rows_of([BYTES_MAX] * 1000):
            read += 1
            yield row

    ahead = ReadAhead(rows(), BYTES_MAX)
    for taken in range(1, 100):
        assert len(ahead.take(500)[0]) == 1
        assert read <= taken + 1


def test_large_rows_behind_small_ones_are_not_read_early() -> None:
    read = 0

    def rows() -> Iterator[tuple[bytes, bytes]]:
        nonlocal read
        for row in rows_of([0] * 40 + [BYTES_MAX] * 1000):
            read += len(row[1])
            yield row

    ahead, taken = ReadAhead(rows(), BYTES_MAX), 0
    while taken < 200 * BYTES_MAX:
        taken += sum(map(len, ahead.take(500)[1]))
        assert read <= taken + BYTES_MAX
