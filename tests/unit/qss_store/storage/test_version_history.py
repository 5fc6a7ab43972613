"""Puts among the versions of a key give the same rows in any order."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from qss_store.storage.placement.version_history import (
    MARK,
    Change,
    Put,
    Replaced,
    Write,
    change_of,
)

TIMES = st.integers(0, 12)
VALUES = st.sampled_from([b"", b"x", b"y", None])
PUTS = st.dictionaries(TIMES, VALUES, min_size=1, max_size=6)


class Key:
    """The rows of one key."""

    def __init__(self) -> None:
        self.latest: Put | None = None
        self.history: dict[tuple[int, int], bytes] = {}

    def put(self, puts: dict[int, bytes | None]) -> Change:
        first = min(puts)
        rows = [
            Replaced(valid_from, valid_to, value)
            for (valid_to, valid_from), value in sorted(self.history.items())
            if valid_to >= first
        ]
        change = change_of(puts, self.latest, rows)
        for valid_from, valid_to, value in change.history:
            self.history.pop((valid_to, valid_from), None)
            if value is not None:
                self.history[valid_to, valid_from] = value
        if change.latest is not None:
            self.latest = change.latest if change.latest.value is not None else None
        return change

    @property
    def rows(self) -> tuple[Put | None, dict[tuple[int, int], bytes]]:
        return self.latest, dict(self.history)


def rows_of(puts: dict[int, bytes | None]) -> tuple[Put | None, dict[tuple[int, int], bytes]]:
    """The rows that all puts together must give."""
    ordered = sorted(puts.items())
    history = {(time, time): MARK for time, value in ordered if value is None}
    history |= {
        (end, time): value for (time, value), (end, _) in pairwise(ordered) if value is not None
    }
    newest = Put(*ordered[-1])
    return (newest if newest.value is not None else None), history


@given(st.lists(PUTS, min_size=1, max_size=8))
def test_rows_are_what_all_puts_say_and_the_same_puts_again_change_nothing(
    batches: list[dict[int, bytes | None]],
) -> None:
    key = Key()
    everything: dict[int, bytes | None] = {}
    for puts in batches:
        everything |= puts
        key.put(puts)
        assert key.rows == rows_of(everything)
    # After an interruption a commit is applied again from its first put.
    for puts in batches[-3:]:
        key.put(puts)
    assert key.rows == rows_of(everything | batches[-1])


def test_puts_after_the_latest_look_at_no_history() -> None:
    def history() -> list[Replaced]:
        raise AssertionError("nobody asks")

    class Never:
        def __iter__(self) -> object:
            return iter(history())

    change = change_of({5: b"new"}, Put(3, b"old"), Never())  # type: ignore[arg-type]
    assert change == Change([Write(3, 5, b"old")], Put(5, b"new"))


def test_a_late_put_reads_and_changes_only_its_neighbours() -> None:
    read = []

    def history() -> object:
        for time in range(10, 100, 10):
            read.append(time)
            yield Replaced(time, time + 10, b"%d" % time)

    change = change_of({25: b"late"}, Put(100, b"now"), history())  # type: ignore[arg-type]
    assert read == [10, 20, 30], "one behind it"
    assert change == Change(
        [Write(20, 30, None), Write(20, 25, b"20"), Write(25, 30, b"late")], None
    )
