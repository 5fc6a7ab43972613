"""A StoreSink refuses bad options before its first batch."""

from typing import Any

import pytest

from qss_core.errors import MalformedRequestError
from qss_spark import StoreSink

URL = "http://words:8081"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"url": "words:8081"}, "a URL like"),
        ({"url": URL, "writer": "a/b"}, "name"),
        ({"url": URL, "writer": ""}, "name"),
        ({"url": URL, "onNewCheckpoint": "perhaps"}, "refuse, takeOver"),
        ({"url": URL, "collect": "often"}, "auto, always, never"),
        ({"url": URL, "keyColumns": "key"}, "a list of names"),
        ({"url": URL, "valueColumns": []}, "a list of names"),
    ],
)
def test_options_that_are_none_are_refused(options: dict[str, Any], says: str) -> None:
    with pytest.raises(MalformedRequestError, match=says):
        StoreSink("words", **options)
