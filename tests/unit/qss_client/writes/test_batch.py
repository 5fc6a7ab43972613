"""A writer refuses bad arguments before it sends a request."""

from typing import Any

import pytest

from qss_client.writes.batch import WRITE_LIMITS, discover
from qss_core.errors import MalformedRequestError

NOBODY: Any = None  # In place of the target of requests, which these tests never send.


@pytest.mark.parametrize("url", ["", "words:8081", "ftp://words"])
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(MalformedRequestError, match="a URL like"):
        discover(NOBODY, url, "words", WRITE_LIMITS)
