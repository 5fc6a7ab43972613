"""The limits of a position apply to batches that add components, and to no others."""

from hashlib import sha256

import pytest

from qss_core.errors import TooLargeError
from qss_core.positions import TOKEN_BYTES_MAX, Position, grown_token_bytes
from qss_store.transactions.position_limits import check_position

# An older version may have written a position beyond the limit.
NAMES = [sha256(b"%d" % number).hexdigest() for number in range(1000)]


def reached(offset: int, *others: str) -> Position:
    return Position.of({name: {0: offset} for name in (*NAMES, *others)})


def test_a_job_continues_in_a_store_whose_position_is_already_too_large() -> None:
    assert grown_token_bytes(reached(1)) > TOKEN_BYTES_MAX
    check_position(reached(1), reached(2))


def test_a_position_that_is_already_too_large_gets_no_more_components() -> None:
    with pytest.raises(TooLargeError, match="the position's token could grow"):
        check_position(reached(1), reached(2, "another"))
