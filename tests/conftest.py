"""Where tests keep their files, how examples are chosen, and what Python's collector looks at."""

import gc
import os
from collections.abc import Generator
from pathlib import Path

import hypothesis
import pytest

_IN_MEMORY = Path("/dev/shm")
_ROOM_BYTES = 8 * 1024**3

# A busy machine is no failure, and each run tries the same examples.
hypothesis.settings.register_profile("project", deadline=None, derandomize=True)
hypothesis.settings.load_profile("project")


def pytest_configure() -> None:
    """Puts them in memory where there is room: else half of a run waits for a slow disk's syncs.

    Whoever wants them on a disk sets PYTEST_DEBUG_TEMPROOT, or --basetemp.
    """
    if _has_room():
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(_IN_MEMORY))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keeps the garbage collector from the modules and tests of a run, which stay to its end.

    It would look at all of them again and again: at half of a collection's time, and at a tenth of
    a simulation's.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(5_000, 10, 10)
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Modules with Spark come first: one of several workers gets them all, and starts one Spark.

    Each worker begins with a stretch of the tests, and others take from its end only.
    """
    with_spark = {item.path for item in items if "spark" in getattr(item, "fixturenames", ())}
    items.sort(key=lambda item: item.path not in with_spark)


def pytest_unconfigure() -> None:
    """Else libraries say at the end that their objects were never freed."""
    gc.unfreeze()


def _has_room() -> bool:
    """Whether programs can be run from there, too, as the tests of Java do."""
    try:
        found = os.statvfs(_IN_MEMORY)
    except OSError:
        return False
    is_for_us = os.access(_IN_MEMORY, os.W_OK) and not found.f_flag & os.ST_NOEXEC
    return is_for_us and found.f_bavail * found.f_frsize >= _ROOM_BYTES
