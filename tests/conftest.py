"""The directories of tests, the profile of examples, and settings of Python's garbage collector."""

import gc
import os
from collections import defaultdict
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


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Takes back the JSON format that PySpark gives to the handlers of other programs' logs."""
    logs = item.config.pluginmanager.get_plugin("logging-plugin")
    assert logs is not None
    logs.caplog_handler.setFormatter(logs.formatter)


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
        gc.set_threshold(50_000, 10, 10)
        gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Gives all tests with Spark to one worker, which so starts one Spark, and long ones first.

    Each worker begins with a consecutive part of the tests; who is done takes from the end of
    another one's part, so each part ends with short tests.
    """
    workers = getattr(config, "workerinput", {}).get("workercount", 1)
    with_spark = {item.path for item in items if "spark" in getattr(item, "fixturenames", ())}
    spark = [item for item in items if item.path in with_spark]
    long: dict[Path, list[pytest.Item]] = defaultdict(list)
    short: list[pytest.Item] = []
    for item in items:
        if item.path not in with_spark:
            (long[item.path] if item.get_closest_marker("long") else short).append(item)
    parts = [spark, *([] for _ in range(workers - 1))]
    for number, module in enumerate(long.values()):
        parts[number % (workers - 1) + 1 if workers > 1 else 0] += module
    for number, part in enumerate(parts):
        left = len(items) - sum(map(len, parts[:number]))
        room = max(0, left // (workers - number) - len(part))
        part += short[:room]
        del short[:room]
    items[:] = [item for part in parts for item in part]


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
