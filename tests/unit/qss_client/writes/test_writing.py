"""What a writer is told before anybody is asked."""

from pathlib import Path
from typing import Any

import pytest

from qss_client.writes.batch import WRITE_LIMITS, discover, open_writer
from qss_core.errors import MalformedRequestError
from qss_testing.pods.pod_process import PodCluster

NOBODY: Any = None  # Where a request would be sent.


@pytest.mark.parametrize("name", ["", "-job", "a/b", "w" * 201])
def test_a_name_that_no_writer_has_is_refused(name: str, tmp_path: Path) -> None:
    cluster = PodCluster(tmp_path, pods=1, partitions=1)  # Never started.
    with pytest.raises(MalformedRequestError, match="name"):
        open_writer(NOBODY, cluster.metadata, name, query_id="q", run_id="r")


@pytest.mark.parametrize("url", ["", "words:8081", "ftp://words"])
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(MalformedRequestError, match="a URL like"):
        discover(NOBODY, url, "words", WRITE_LIMITS)
