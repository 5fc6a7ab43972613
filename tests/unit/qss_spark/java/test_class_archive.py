"""Where the archive of Spark's classes lies, and what a JVM is told of it."""

import os
import shlex
import subprocess
from pathlib import Path

import pytest

from qss_spark.java.jvm_cds import JvmCdsArchive, class_archive, with_archive
from qss_spark.jvm_cds_training import TrainingError, make, takes_archives

JAVA = """#!/bin/sh
echo 'openjdk version "{version}"' >&2
"""
# Dumps as a JVM does: into the file that it is told.
DUMPS = """#!/bin/sh
for argument do
  case $argument in -XX:SharedArchiveFile=*) echo classes > "${argument#*=}" ;; esac
done
"""


def java_that(home: Path, script: str) -> Path:
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True, exist_ok=True)
    java.write_text(script)
    java.chmod(0o755)
    return home


def test_options_name_an_archive_that_is_there(tmp_path: Path) -> None:
    archive = JvmCdsArchive(tmp_path / "java.jsa", tmp_path / "spark.jsa")
    assert archive.added_to("-Xss8m") == "-Xss8m"
    archive.spark.write_bytes(b"classes")
    added = archive.added_to("-Xss8m").split()
    assert added == ["-Xss8m", f"-XX:SharedArchiveFile={archive.spark}", "-Xlog:cds*=off"]
    assert archive.added_to("").split() == added[1:]
    chosen = "-XX:SharedArchiveFile=/mine.jsa"
    assert archive.added_to(chosen) == chosen


def test_a_session_goes_on_without_an_archive_whatever_keeps_it_from_one(tmp_path: Path) -> None:
    home = java_that(tmp_path / "home", JAVA.format(version="17"))
    assert with_archive("-Xss8m", home, tmp_path) == "-Xss8m"
    archive = class_archive(home, tmp_path)
    archive.spark.parent.mkdir(parents=True)
    archive.spark.write_bytes(b"classes")
    assert with_archive("-Xss8m", home, tmp_path) == archive.added_to("-Xss8m") != "-Xss8m"
    assert with_archive("-Xss8m", java_that(home, "#!/bin/sh\nexit 1\n"), tmp_path) == "-Xss8m"
    assert with_archive("-Xss8m", tmp_path / "nowhere", tmp_path) == "-Xss8m"


@pytest.mark.parametrize("name", ["a b", "it's", 'say "it"', "back\\slash", "$HOME `id`"])
def test_a_path_with_odd_signs_is_one_option(tmp_path: Path, name: str) -> None:
    archive = JvmCdsArchive(tmp_path / name / "java.jsa", tmp_path / name / "spark.jsa")
    archive.spark.parent.mkdir()
    archive.spark.write_bytes(b"classes")
    first, added, _ = shlex.split(archive.added_to("-Xss8m"))
    assert (first, added) == ("-Xss8m", f"-XX:SharedArchiveFile={archive.spark}")


def test_a_path_with_a_colon_is_no_place_for_an_archive(tmp_path: Path) -> None:
    archive = JvmCdsArchive(tmp_path / "a:b" / "java.jsa", tmp_path / "a:b" / "spark.jsa")
    with pytest.raises(TrainingError, match="colon"):
        make(tmp_path, archive)
    archive.spark.parent.mkdir()
    archive.spark.write_bytes(b"classes")
    assert archive.added_to("-Xss8m") == "-Xss8m"


def test_each_java_has_an_archive_of_its_own_in_each_environment(tmp_path: Path) -> None:
    homes = [java_that(tmp_path / name, JAVA.format(version="17.0.1")) for name in ("a", "b")]
    found = {class_archive(home, tmp_path / env) for home in homes for env in ("x", "y")}
    java_that(homes[0], JAVA.format(version="17.0.2"))
    found.add(class_archive(homes[0], tmp_path / "x"))
    assert len(found) == 5
    assert class_archive(homes[1], tmp_path / "x") in found
    assert all(one.spark.is_relative_to(tmp_path) for one in found)


@pytest.mark.parametrize(("version", "is_taken"), [("17.0.15", True), ("21.0.8", False)])
def test_archives_are_for_a_java_that_reads_what_it_wrote(
    tmp_path: Path, version: str, is_taken: bool
) -> None:
    assert takes_archives(java_that(tmp_path, JAVA.format(version=version))) is is_taken


def test_an_archive_that_cannot_be_made_leaves_none_and_says_why(tmp_path: Path) -> None:
    archive = JvmCdsArchive(tmp_path / "made" / "java.jsa", tmp_path / "made" / "spark.jsa")
    for script, said in (
        ("#!/bin/sh\necho 'no room' >&2\nexit 1\n", "ended with 1: no room"),
        ("#!/bin/sh\nexit 0\n", "ended with 0"),
    ):
        with pytest.raises(TrainingError, match=said):
            make(java_that(tmp_path / "home", script), archive)
        assert archive.added_to("") == ""
    with pytest.raises(TrainingError, match="ended with"):
        make(java_that(tmp_path / "home", DUMPS + "exit 3\n"), archive)
    assert archive.added_to("") == ""
    assert not list((tmp_path / "made").iterdir())


def test_drafts_of_makers_that_were_killed_go_with_the_next_one(tmp_path: Path) -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    abandoned = tmp_path / f"java.jsa.{ended.pid}"
    being_made = tmp_path / f"java.jsa.{os.getppid()}"
    abandoned.touch()
    being_made.touch()
    with pytest.raises(TrainingError):
        make(
            java_that(tmp_path / "home", "#!/bin/sh\nexit 1\n"),
            JvmCdsArchive(tmp_path / "java.jsa", tmp_path / "spark.jsa"),
        )
    assert not abandoned.exists()
    assert being_made.exists()
