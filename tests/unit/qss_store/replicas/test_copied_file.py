"""The file of a copied database, which threads write while its copy may be cancelled."""

import io
from pathlib import Path

import pytest

from qss_core.errors import StoreError
from qss_store.replicas.transfer.copied_file import CopiedFile


def test_a_file_that_was_closed_before_a_thread_opens_it_stays_closed(tmp_path: Path) -> None:
    """A cancelled copy closes the file while the thread that opens it has not begun yet."""
    copied = CopiedFile(tmp_path / "a.sst")
    copied.close()
    copied.open()
    assert not (tmp_path / "a.sst").exists()


def test_a_file_that_ended_is_closed_again_without_an_error(tmp_path: Path) -> None:
    copied = CopiedFile(tmp_path / "a.sst")
    copied.open()
    copied.end()
    copied.close()
    with pytest.raises(ValueError, match="closed"):
        copied.end()


def test_a_file_that_is_not_open_cannot_end(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"a\.sst is not open"):
        CopiedFile(tmp_path / "a.sst").end()


def test_an_opened_file_is_empty(tmp_path: Path) -> None:
    copied = CopiedFile(tmp_path / "a.sst")
    copied.open()
    copied.take(io.BufferedReader(io.BytesIO(b"")))
    copied.end()
    assert (tmp_path / "a.sst").read_bytes() == b""
