"""What a writer is told before anybody is asked."""

from typing import Any

import pytest

from qss_client.writes.batch import WRITE_LIMITS, discover
from qss_core.errors import MalformedRequestError

NOBODY: Any = None  # Where a request would be sent.


@pytest.mark.parametrize("url", ["", "words:8081", "ftp://words"])
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(MalformedRequestError, match="a URL like"):
        discover(NOBODY, url, "words", WRITE_LIMITS)
