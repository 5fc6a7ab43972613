"""Connections leave enough open files for the databases."""

import resource

import pytest

from qss_store.runtime.process.file_limits import connections_within, raise_open_files


@pytest.fixture
def limits(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """The limit that is asked of the system, without changing it."""
    asked: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "setrlimit", lambda _, limits: asked.append(limits))
    return asked


@pytest.mark.parametrize(
    ("soft", "hard", "allowed"),
    [
        (1024, 4096, 4096),
        (1024, 1_048_576, 65_536),
        (1024, resource.RLIM_INFINITY, 65_536),
        (256, 256, 256),
        (1_000_000, 1_048_576, 1_000_000),
        (resource.RLIM_INFINITY, resource.RLIM_INFINITY, 65_536),
    ],
)
def test_as_many_files_as_the_system_allows(
    limits: list[tuple[int, int]],
    monkeypatch: pytest.MonkeyPatch,
    soft: int,
    hard: int,
    allowed: int,
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (soft, hard))
    assert raise_open_files() == allowed
    assert limits == ([(allowed, hard)] if 0 < soft < allowed else [])


@pytest.mark.parametrize(
    ("wanted", "files", "taken"),
    [(4096, 65_536, 4096), (4096, 1024, 170), (9, 3, 1), (5, 1024, 5)],
)
def test_three_listeners_take_half_of_the_files_at_most(
    wanted: int, files: int, taken: int
) -> None:
    assert connections_within(wanted, files) == taken
