"""Whole states, as the snapshots and changelogs of RocksDB have them."""

import zipfile
from pathlib import Path

import pytest
from rocksdict import Options, Rdict

from qss_spark.state.checkpoint import Batch, Checkpoint
from qss_spark.state.errors import CheckpointError
from qss_spark.state.inventory import Inventory
from qss_spark.state.snapshots import StorePart, raw_state

FILES = Path(__file__).parents[3] / "contract" / "spark_state" / "4.3.0"
ROWS = 5000
FIRST = Batch(0, True, "lz4", "unsaferow", False, 1)


def checkpoint_of(directory: Path, name: str) -> Path:
    with zipfile.ZipFile(FILES / f"{name}.zip") as archive:
        archive.extractall(directory)
    return directory


@pytest.fixture
def snapshot(tmp_path: Path) -> Path:
    """A checkpoint whose only state is a snapshot with ROWS rows in one table file."""
    options = Options(raw_mode=True)
    options.set_disable_auto_compactions(True)
    database = Rdict(str(tmp_path / "database"), options)
    for number in range(ROWS):
        database[b"%08d" % number] = bytes(100)
    database.flush()
    database.close()
    directory = tmp_path / "state" / "0" / "0"
    for folder in (directory / "SSTs", tmp_path / "commits", tmp_path / "offsets"):
        folder.mkdir(parents=True)
    (directory / "1.changelog").touch()
    (table,) = (tmp_path / "database").glob("*.sst")
    (directory / "SSTs" / "held.sst").write_bytes(table.read_bytes())
    named = f'{{"sstFiles":[{{"localFileName":"{table.name}","dfsSstFileName":"held.sst"}}]}}'
    with zipfile.ZipFile(directory / "1.zip", "w") as archive:
        archive.writestr("metadata", f"v1\n{named}")
        for one in (tmp_path / "database").iterdir():
            if one.name.startswith(("CURRENT", "MANIFEST", "OPTIONS")):
                archive.write(one, one.name)
    return tmp_path


def rows_in(checkpoint: Path) -> int:
    return len(raw_state(Checkpoint(checkpoint), FIRST, StorePart(0, 0, "default", 0)))


def test_a_snapshot_has_all_its_rows(snapshot: Path) -> None:
    assert rows_in(snapshot) == ROWS


@pytest.mark.parametrize("place", [0.3, 0.8])
def test_a_damaged_block_of_a_table_file_is_no_end_of_the_rows(
    snapshot: Path, place: float
) -> None:
    file = snapshot / "state" / "0" / "0" / "SSTs" / "held.sst"
    data = bytearray(file.read_bytes())
    at = int(len(data) * place)
    for each in range(at, at + 64):
        data[each] ^= 0xFF
    file.write_bytes(data)
    with pytest.raises(CheckpointError, match="has a damaged table file"):
        rows_in(snapshot)


def test_a_damaged_archive_is_refused(snapshot: Path) -> None:
    file = snapshot / "state" / "0" / "0" / "1.zip"
    with zipfile.ZipFile(file) as archive:
        (one,) = (each for each in archive.infolist() if each.filename.startswith("MANIFEST"))
    data = bytearray(file.read_bytes())
    data[one.header_offset + one.compress_size] ^= 0xFF  # A byte of the member's own.
    file.write_bytes(data)
    with pytest.raises(CheckpointError, match=r"1\.zip cannot be unpacked"):
        rows_in(snapshot)


def test_metadata_without_the_names_of_files_is_damaged(snapshot: Path) -> None:
    file = snapshot / "state" / "0" / "0" / "1.zip"
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("metadata", 'v1\n{"sstFiles":[{"localFileName":"1.sst"}]}')
    with pytest.raises(CheckpointError, match="metadata that is damaged"):
        rows_in(snapshot)


def test_state_without_changelogs_is_refused_before_it_is_read(snapshot: Path) -> None:
    (snapshot / "state" / "0" / "0" / "1.changelog").unlink()
    with pytest.raises(CheckpointError, match=r"changelogCheckpointing\.enabled=true"):
        rows_in(snapshot)


def test_files_are_found_without_the_commits_that_named_them(tmp_path: Path) -> None:
    """Spark keeps the files of a state longer than the commits of its batches."""
    path = checkpoint_of(tmp_path, "processor-rocksdb-zstd")
    before = [found.table(one) for found in [Inventory(path)] for one in found.items]
    for batch in range(3):
        (path / "commits" / str(batch)).unlink()
        (path / "offsets" / str(batch)).unlink()
    found = Inventory(path)
    assert [found.table(one) for one in found.items] == before


def test_a_checkpoint_that_is_gone_is_told(tmp_path: Path) -> None:
    held = Checkpoint(checkpoint_of(tmp_path / "here", "dedup-hdfs"))
    (tmp_path / "here").rename(tmp_path / "there")
    with pytest.raises(CheckpointError, match="cannot be read any more"):
        held.newest()
