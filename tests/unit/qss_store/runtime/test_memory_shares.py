"""The memory limit of a pod, and how the pod divides it."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from qss_store.runtime.process.memory_limit import memory_limit, memory_of_machine
from qss_store.runtime.process.memory_shares import with_shares
from qss_store.runtime.settings import Settings

MIB = 1024 * 1024


def write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


@pytest.mark.parametrize(
    ("own", "limits", "expected"),
    [
        ("0::/\n", {"memory.max": "1000\n"}, 1000),
        ("0::/\n", {"memory.max": "max\n"}, None),
        ("0::/a/b\n", {"a/b/memory.max": "max", "a/memory.max": "700", "memory.max": "900"}, 700),
        ("0::/kubepods/pod\n", {"memory.max": "1000"}, 1000),
        ("4:memory:/a\n0::/\n", {"memory/a/memory.limit_in_bytes": "500"}, 500),
        ("3:cpu,memory:/a\n", {"memory/memory.limit_in_bytes": "600"}, 600),
        ("4:memory:/a\n", {"memory/a/memory.limit_in_bytes": str(2**63 - 4096)}, None),
        ("0::/../a\n", {"memory.max": "1000"}, 1000),
        ("", {}, None),
    ],
)
def test_the_limit_is_the_least_of_the_own_group_and_those_around_it(
    tmp_path: Path, own: str, limits: dict[str, str], expected: int | None
) -> None:
    write(tmp_path / "own", own)
    for name, text in limits.items():
        write(tmp_path / "groups" / name, text)
    assert memory_limit(tmp_path / "groups", tmp_path / "own") == expected


def test_a_machine_has_memory() -> None:
    assert memory_of_machine() > 256 * MIB


def shares(limit: int | None, **given: Any) -> tuple[int, int, int]:
    """The shares of block cache, write buffers and requests, in MiB."""
    made = with_shares(replace(Settings(), **given), limit, machine=4096 * MIB)
    return (
        made.block_cache_bytes // MIB,
        made.write_buffer_bytes // MIB,
        made.request_memory_bytes // MIB,
    )


def test_the_shares_of_a_limit_leave_room() -> None:
    for limit in (768, 1024, 2048, 4096):
        assert sum(shares(limit * MIB)) <= 0.6 * limit
    assert shares(1024 * MIB) == (256, 128, 204)


def test_without_a_limit_caches_are_the_same_on_each_machine() -> None:
    assert shares(None) == (256, 256, 819)


def test_what_settings_say_stays() -> None:
    given = {"block_cache_bytes": 7 * MIB, "request_memory_bytes": 9 * MIB}
    assert shares(1024 * MIB, **given) == (7, 128, 9)


def test_a_listener_takes_as_many_connections_as_fit_into_the_limit() -> None:
    def most(limit: int | None) -> int:
        return with_shares(Settings(), limit, 4096 * MIB).connections_max

    assert [most(limit * MIB) for limit in (64, 512, 1024, 8192)] == [128, 512, 1024, 4096]
    assert most(None) == 4096
