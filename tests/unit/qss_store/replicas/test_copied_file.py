"""The file of a copied database, which threads write while its copy may be cancelled."""

import io
import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from qss_core.errors import DiskFullError, StoreError
from qss_store.replicas.transfer.copied_file import CopiedFile
from qss_store.replicas.volume.volume_watch import RESERVE_BYTES
from qss_store.replication.frames import frame_of


def framed(data: bytes) -> io.BufferedReader:
    """The body of a part with one frame."""
    return io.BufferedReader(io.BytesIO(frame_of(io.BytesIO(data), len(data))))


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


def test_a_file_leaves_the_bytes_that_the_pod_keeps_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copy that filled the volume kept the pod's other partitions from writing."""
    free = RESERVE_BYTES + 3
    monkeypatch.setattr(os, "fstatvfs", lambda _: SimpleNamespace(f_bavail=free, f_frsize=1))
    copied = CopiedFile(tmp_path / "a.sst")
    copied.open()
    copied.take(framed(b"abc"))
    with pytest.raises(DiskFullError, match="64 MiB are kept back: the copy has no more room"):
        copied.take(framed(b"defg"))
    copied.close()
    assert (tmp_path / "a.sst").read_bytes() == b"abc"
