"""A volume says which pod it is of, for programs that open no database."""

from pathlib import Path

import pytest

from qss_core.model import Ordinal
from qss_store.replicas.volume.kept_files import Volume

SELF, OTHER = Ordinal(0), Ordinal(1)


def said(volume: Path) -> str:
    return (volume / "pod-ordinal").read_text()


def test_only_an_older_database_of_the_pod_changes_what_a_volume_says(tmp_path: Path) -> None:
    Volume(tmp_path).keep_owner(OTHER, is_sure=False)
    assert said(tmp_path) == "1"
    Volume(tmp_path).keep_owner(SELF, is_sure=False)
    assert said(tmp_path) == "1"
    Volume(tmp_path).keep_owner(SELF, is_sure=True)
    assert said(tmp_path) == "0"


@pytest.mark.parametrize("damaged", [b"", b"\0", b"one", b"\xff"])
def test_a_damaged_number_is_written_again(tmp_path: Path, damaged: bytes) -> None:
    (tmp_path / "pod-ordinal").write_bytes(damaged)
    Volume(tmp_path).keep_owner(SELF, is_sure=False)
    assert said(tmp_path) == "0"
