"""Images and tools are pinned: bases by digest, packages by version and hash. Needs no network."""

import re
import tomllib
from collections.abc import Iterator
from importlib.metadata import requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
IMAGES = {"store-pod": "store", "operator": "operator", "spark-jobs": "spark"}
LOCKS = [
    ROOT / "requirements.lock",
    *sorted((ROOT / ".ci").glob("*.lock")),
    *(ROOT / directory / "requirements.lock" for directory in IMAGES),
]
INSTALLERS = [
    ROOT / "Makefile",
    *(path for path in sorted((ROOT / ".ci").iterdir()) if path.suffix != ".lock"),
    *(ROOT / "tests" / "e2e" / part for part in ("images/images", "images/base.sh")),
    *sorted((ROOT / "tests" / "e2e" / "testbed").glob("*.sh")),
    *(ROOT / directory / "Dockerfile" for directory in IMAGES),
]
_PINNED = re.compile(r"[A-Za-z0-9._-]+==[^\s;]+( ; [^\\]+)?( --hash=sha256:[0-9a-f]{64})+")


def instructions(path: Path) -> list[str]:
    """The lines of a Dockerfile, with continued lines joined."""
    return path.read_text().replace("\\\n", " ").splitlines()


def entries(lock: Path) -> list[str]:
    """The entries of a lock file by package; a package that differs by platform has several."""
    lines = [" ".join(line.split()) for line in instructions(lock)]
    return [line for line in lines if line]


def pin(line: str) -> tuple[str, str]:
    """Name, version and hashes, without the conditions of a platform."""
    package, _, hashes = line.partition(" --hash=")
    return package.partition(" ;")[0], hashes


def wanted(extra: str) -> list[Requirement]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = [*project["dependencies"], *project["optional-dependencies"][extra]]
    return [Requirement(one) for one in named]


def packages_of(requirements: list[Requirement]) -> Iterator[str]:
    """All packages that these need here, by the metadata of the installed packages."""
    seen: set[tuple[str, str]] = set()
    left = [(one, extra) for one in requirements for extra in ("", *one.extras)]
    while left:
        requirement, extra = left.pop()
        name = canonicalize_name(requirement.name)
        if (name, extra) in seen:
            continue
        seen.add((name, extra))
        yield name
        for text in requires(name) or ():
            needed = Requirement(text)
            if needed.marker is None or needed.marker.evaluate({"extra": extra}):
                left += [(needed, one) for one in ("", *needed.extras)]


@pytest.mark.parametrize("directory", IMAGES)
def test_an_image_is_built_on_a_base_of_one_digest(directory: str) -> None:
    lines = instructions(ROOT / directory / "Dockerfile")
    bases = [line.removeprefix("ARG BASE=") for line in lines if line.startswith("ARG BASE")]
    assert len(bases) == 1
    assert re.fullmatch(r"python:3\.11-slim@sha256:[0-9a-f]{64}", bases[0])
    froms = [line.split()[1] for line in lines if line.startswith("FROM ")]
    assert set(froms) == {"$BASE"}


def test_all_images_have_one_base() -> None:
    found = {instructions(ROOT / directory / "Dockerfile")[1] for directory in IMAGES}
    assert len(found) == 1


@pytest.mark.parametrize("path", INSTALLERS, ids=lambda path: str(path.relative_to(ROOT)))
def test_whatever_is_installed_has_its_hash_checked(path: Path) -> None:
    installs = [
        part.strip()
        for line in instructions(path)
        for part in line.split("&&")
        if "pip install" in part and not part.lstrip().startswith("#")
    ]
    own = "--no-deps --editable ."  # The project itself, installed by a tool whose hash is checked.
    unchecked = [
        one
        for one in installs
        if "--require-hashes" not in one
        and not (one.endswith(own) and "--build-constraints .ci/build.lock" in one)
    ]
    assert unchecked == []
    # Packages that come as sources are built by tools whose hashes are checked, too.
    assert [one for one in installs if "uv pip" in one and "--build-constraints" not in one] == []


@pytest.mark.parametrize("lock", LOCKS, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_lock_has_a_version_and_hashes_for_every_package(lock: Path) -> None:
    found = entries(lock)
    assert found
    assert [line for line in found if not _PINNED.fullmatch(line)] == []


@pytest.mark.parametrize("directory", IMAGES)
def test_the_lock_of_an_image_has_what_the_image_wants_as_it_is_tested(directory: str) -> None:
    tested = {pin(line) for line in entries(ROOT / "requirements.lock")}
    found = {pin(line) for line in entries(ROOT / directory / "requirements.lock")}
    assert {package for package, _ in found - tested} == set(), "make lock"
    versions = dict(package.split("==") for package, _ in found)
    requirements = wanted(IMAGES[directory])
    assert set(packages_of(requirements)) - set(versions) == set(), "make lock"
    for one in requirements:
        assert one.specifier.contains(versions[canonicalize_name(one.name)]), "make lock"


def test_an_image_is_told_what_a_dockerfile_copies() -> None:
    kept = {
        line.removeprefix("!")
        for line in (ROOT / ".dockerignore").read_text().splitlines()
        if line.startswith("!")
    }
    copied = {
        source
        for directory in IMAGES
        for line in instructions(ROOT / directory / "Dockerfile")
        if line.startswith("COPY ") and not line.startswith("COPY --from")
        for source in line.split()[1:-1]
    }
    assert kept == copied
