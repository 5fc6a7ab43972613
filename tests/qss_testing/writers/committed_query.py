"""A query whose batches are committed one by one, and copies of its state into a store.

Its checkpoint is one that Spark wrote for `tests/contract`.
"""

import json
import os
import urllib.request
import zipfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from qss_client import Store
from qss_client.http.sync_http import SyncHttp
from qss_spark.mirroring.copies.state_copy import StateCopy, Written
from qss_spark.mirroring.state_follower import StateFollower
from qss_testing.pods.pod_process import PodCluster
from qss_testing.writers.spark_state import EXPECTED

FILES = Path(__file__).parents[2] / "contract" / "spark_state" / "4.3.0"
MakeCluster = Callable[..., PodCluster]


class Query:
    """A query whose batches are committed one by one."""

    def __init__(self, directory: Path, name: str) -> None:
        self.path = directory / "checkpoint"
        with zipfile.ZipFile(FILES / f"{name}.zip") as archive:
            archive.extractall(self.path)
        self._commits = {int(one.name): one.read_bytes() for one in self._files()}
        for one in self._files():
            one.unlink()
        self.expected: dict[str, Any] = json.loads((self.path / EXPECTED).read_text())["parts"]

    def _files(self) -> list[Path]:
        return [one for one in (self.path / "commits").iterdir() if one.name.isdigit()]

    @property
    def batches(self) -> list[int]:
        """All batches, in their order."""
        return sorted(self._commits)

    def commit(self, batch: int) -> None:
        """Commits one batch, as Spark does it."""
        draft = self.path / f".commit-{batch}"
        draft.write_bytes(self._commits[batch])
        draft.rename(self.path / "commits" / str(batch))

    def commit_all(self) -> None:
        """Commits all batches that are not yet, in their order."""
        for batch in self.batches:
            if not (self.path / "commits" / str(batch)).exists():
                self.commit(batch)

    def forget(self, batch: int) -> None:
        """Deletes what Spark deletes of an old batch."""
        (self.path / "commits" / str(batch)).unlink()
        (self.path / "offsets" / str(batch)).unlink()
        for file in (self.path / "state").rglob(f"{batch + 1}.*"):
            file.unlink()


@contextmanager
def held_file(file: Path) -> Iterator[Callable[[], object]]:
    """Holds the reader of a file until the block ends; the function waits for it to begin."""
    data = file.read_bytes()
    file.unlink()
    os.mkfifo(file)
    opened: list[int] = []

    def wait_for_reader() -> None:
        opened.append(os.open(file, os.O_WRONLY))

    try:
        yield wait_for_reader
    finally:
        if not opened:
            wait_for_reader()
        file.unlink()
        file.write_bytes(data)  # For later readers.
        with os.fdopen(opened[0], "wb") as writing:
            writing.write(data)


@contextmanager
def copying(
    cluster: PodCluster,
    query: Query,
    part: str | None = None,
    writer: str = "mirror",
    **options: Any,
) -> Iterator[StateCopy]:
    """Copies a part of the state as another process would: it knows only store and files."""
    http = SyncHttp()
    try:
        follower = StateFollower(query.path, None, part)
        yield StateCopy(follower, http, cluster.url, cluster.store, writer, **options)
    finally:
        http.close()


def steps_of(copy: StateCopy) -> list[Written]:
    """Copies all batches that are committed."""
    return list(iter(copy.step, None))


@contextmanager
def making_clusters(directory: Path) -> Iterator[MakeCluster]:
    """Makes pods of stores whose keys are JSON, and ends them."""
    with ExitStack() as stack:

        def make(**definition: Any) -> PodCluster:
            made = PodCluster(directory / "pods", **{"key_serde": "json", **definition})
            return stack.enter_context(made)

        yield make


def rows_in(cluster: PodCluster) -> dict[str, Any]:
    """All rows, by the JSON of their keys."""
    with Store(cluster.url, cluster.store) as store:
        return {json.dumps(row.key): row.value for row in store.range()}


def shown_metrics(port: int) -> dict[str, float]:
    """The samples of `/metrics`, by their names and labels."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
        text = answer.read().decode()
    lines = (line.rsplit(" ", 1) for line in text.splitlines() if line[0] != "#")
    return {name: float(value) for name, value in lines}


def members(value: Any) -> Any:
    """JSON without the names of its members, and without the zone of times, which is UTC."""
    if isinstance(value, str):
        return value.removesuffix("Z")
    if isinstance(value, dict):
        return [members(one) for one in value.values()]
    return [members(one) for one in value] if isinstance(value, list) else value
