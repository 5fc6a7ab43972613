"""`qss watch` follows the windows, sessions and versions of a key."""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from qss_client.cli.stores.watch import new_timed_rows
from qss_client.reads.requests import DEFAULTS
from qss_client.store import Store
from qss_core.model import StoreType
from qss_core.times import time_of_text
from qss_testing.clients.terminal import Terminal
from qss_testing.page_commands import outputs_of_page
from qss_testing.pods.pod_process import PodCluster
from qss_testing.pods.stores import Put, slice_of
from qss_testing.writers.writer import Writer

HOUR_MS = 3_600_000
STORES: dict[str, dict[str, Any]] = {
    "Window": {"type": StoreType.WINDOW, "window_size_ms": 1000, "retention_ms": HOUR_MS},
    "Session": {"type": StoreType.SESSION, "session_gap_ms": 100, "retention_ms": HOUR_MS},
    "Versioned": {"type": StoreType.VERSIONED, "history_retention_ms": HOUR_MS},
}
FIRST = [Put(b"k", b"1", 1000, start=1000, end=1500)]
BATCHES = [
    [Put(b"else", b"5", 1000, start=1000, end=1500)],  # The rows of the key stay as they are.
    [
        Put(b"k", b"2", 3000, start=3000, end=3500),
        Put(b"k", b"3", 2000, start=2000, end=2500),
    ],
    [Put(b"k", b"4", 3000, start=3000, end=3500)],
    [Put(b"k", None, 4000, start=3000, end=3500)],
]
# Value, times of the row, and whether it is gone.
WINDOWS = [
    (1, 1000, 2000, False),
    (3, 2000, 3000, False),
    (2, 3000, 4000, False),
    (4, 3000, 4000, False),
    (4, 3000, 4000, True),
]
SESSIONS = [
    (1, 1000, 1500, False),
    (3, 2000, 2500, False),
    (2, 3000, 3500, False),
    (4, 3000, 3500, False),
    (4, 3000, 3500, True),
]
VERSIONS = [
    (1, 1000, None, False),
    (1, 1000, 2000, False),
    (3, 2000, 3000, False),
    (2, 3000, None, False),
    (4, 3000, None, False),
    (4, 3000, 4000, False),
]


class Pod:
    """One pod of a store with one partition, and its writer."""

    def __init__(self, cluster: PodCluster, job: Writer) -> None:
        self.cluster = cluster
        self._job = job

    def put(self, rows: list[Put]) -> None:
        self._job.write_slices([slice_of(self.cluster.assignment.definition, 0, rows)])


@pytest.fixture
def pod(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Pod]:
    with ExitStack() as stack:
        given = {"format": "Plain", **STORES[request.param]}
        cluster = stack.enter_context(PodCluster(tmp_path, partitions=1, **given))
        job = stack.enter_context(Writer(cluster.url, cluster.store))
        yield Pod(cluster, job)


@pytest.mark.parametrize(
    ("pod", "expected"),
    [("Window", WINDOWS), ("Session", SESSIONS), ("Versioned", VERSIONS)],
    indirect=["pod"],
)
def test_each_change_of_a_key_is_told_once(
    pod: Pod, expected: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    with Store(pod.cluster.url, pod.cluster.store) as store:
        batches = iter([FIRST, *BATCHES])
        rows = new_timed_rows(store, "k", DEFAULTS, lambda: pod.put(next(batches)), pytest.fail)
        absent, *changes = [next(rows) for _ in range(len(expected) + 1)]
    assert (absent.row, absent.is_gone) == (None, True)
    assert [(*facts(one.row), one.is_gone) for one in changes] == expected
    _looks_as_promised(pod, Terminal(pod.cluster.url, capsys))


def facts(row: Any) -> tuple[Any, ...]:
    """The value of a row and its times."""
    first, last = ("valid_from", "valid_to") if hasattr(row, "valid_from") else ("start", "end")
    return row.value, getattr(row, first), getattr(row, last)


def _looks_as_promised(pod: Pod, terminal: Terminal) -> None:
    """The commands print the rows that are there, the newest last."""
    command = ("watch", pod.cluster.store, "k", "--limit", "2")
    table = terminal.run(*command)
    assert (table.code, table.err) == (0, "")
    first, second = (line.split("  ")[1:] for line in table.out.splitlines())
    assert first[0] == "1970-01-01T00:00:01Z"
    assert second[:3] == ["1970-01-01T00:00:02Z", second[1], "3"]
    lines = terminal.run(*command, "-o", "ndjson").out.splitlines()
    documents = [json.loads(line) for line in lines]
    assert [(one["key"], one["value"]) for one in documents] == [("k", 1), ("k", 3)]
    absent = terminal.run("watch", pod.cluster.store, "never", "--limit", "1")
    assert absent.out.split()[1:] == ["(absent)"]


def test_windows_look_as_on_the_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = outputs_of_page("store-pod/docs/command-line.md")["qss watch hourly EWR"]
    shown = page.splitlines()[:2]
    given = {**STORES["Window"], "window_size_ms": HOUR_MS, "retention_ms": 24 * HOUR_MS}
    with (
        PodCluster(tmp_path, partitions=1, store="hourly", **given) as cluster,
        Writer(cluster.url, cluster.store) as job,
    ):
        rows = []
        for line in shown:
            _, start, _, value, timestamp = line.split("  ")
            written_ms, start_ms = (time_of_text("time", text) for text in (timestamp, start))
            rows.append(Put(b"EWR", value.encode(), written_ms, start=start_ms))
        job.write_slices([slice_of(cluster.assignment.definition, 0, rows)])
        done = Terminal(cluster.url, capsys).run("watch", "hourly", "EWR", "--limit", "2")
    printed = [line.split("  ")[1:] for line in done.out.splitlines()]
    assert printed == [line.split("  ")[1:] for line in shown]
