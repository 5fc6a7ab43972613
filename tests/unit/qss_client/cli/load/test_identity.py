"""A store knows the load of a file again by the writer's name and the id of its query."""

import os
from pathlib import Path

import pytest

from qss_client.cli.load.identity import Identity, Stamp, check_unchanged, identity_of
from qss_core.errors import MalformedRequestError, OtherCheckpointError
from qss_core.wire.writer_reports import check_writer_name


def identity(path: Path, **options: object) -> Identity:
    return identity_of(path, options, lambda _: None)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "some rows (1).csv"
    path.write_text("key,value\n")
    return path


def test_a_writer_is_named_by_the_path(path: Path, tmp_path: Path) -> None:
    name = identity(path).writer
    assert check_writer_name(name).startswith("load-some_rows_1_.csv-")
    (tmp_path / "other").mkdir()
    other = tmp_path / "other" / path.name
    other.write_text(path.read_text())
    assert identity(other).writer != name
    long = tmp_path / ("ä" * 100 + "x" * 40)
    long.write_text("")
    check_writer_name(identity(long).writer)


def test_the_same_file_with_the_same_options_continues(path: Path) -> None:
    first = identity(path, key="a")
    held = first.fresh("one")
    identity(path, key="a").check_same(held, path.name)
    assert held != first.fresh("two")
    assert first.fingerprint(1) == identity(path, key="a").fingerprint(1)
    assert first.fingerprint(1) != first.fingerprint(2)


def test_a_changed_file_and_other_options_are_told_apart(path: Path) -> None:
    held = identity(path, key="a").fresh("one")
    with pytest.raises(OtherCheckpointError, match="other columns or another --batch-rows"):
        identity(path, key="b").check_same(held, path.name)
    path.write_text("key,value\n1,2\n")
    with pytest.raises(OtherCheckpointError, match="has changed since its rows were loaded"):
        identity(path, key="a").check_same(held, path.name)


def test_a_file_that_is_written_meanwhile_is_noticed(path: Path) -> None:
    stamp = Stamp.of(path)
    check_unchanged(path, stamp)
    os.utime(path, ns=(1, 1))
    with pytest.raises(MalformedRequestError, match="was written while it was loaded"):
        check_unchanged(path, stamp)
