"""Where tests keep their files, which examples run, and settings of Python's garbage collector."""

import gc
import os
from collections.abc import Generator
from pathlib import Path

import hypothesis
import pytest

_IN_MEMORY = Path("/dev/shm")
_ROOM_BYTES = 8 * 1024**3

# No deadline, since a machine may be busy; each run tries the same examples.
hypothesis.settings.register_profile("project", deadline=None, derandomize=True)
hypothesis.settings.load_profile("project")


def pytest_configure() -> None:
    """Puts the tests' files in memory if there is room; on a disk, syncs take half of a run.

    To put them on a disk, set PYTEST_DEBUG_TEMPROOT or --basetemp.
    """
    if _has_room():
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(_IN_MEMORY))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Excludes the modules and tests of a run from garbage collection, since they stay to its end.

    The collector would visit all of them again and again, which takes half of the time of a
    collection of tests and a tenth of a simulation's.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(5_000, 10, 10)
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Modules with Spark come first, so that one of several workers gets all of them and one Spark.

    Each worker begins with a consecutive part of the tests, and others take from its end only.
    """
    with_spark = {item.path for item in items if "spark" in getattr(item, "fixturenames", ())}
    items.sort(key=lambda item: item.path not in with_spark)


def pytest_unconfigure() -> None:
    """Without this, libraries report at the end that their objects were never freed."""
    gc.unfreeze()


def _has_room() -> bool:
    """Whether the directory has room and programs can be run from it, as the tests of Java do."""
    try:
        found = os.statvfs(_IN_MEMORY)
    except OSError:
        return False
    is_for_us = os.access(_IN_MEMORY, os.W_OK) and not found.f_flag & os.ST_NOEXEC
    return is_for_us and found.f_bavail * found.f_frsize >= _ROOM_BYTES
