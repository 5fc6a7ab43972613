"""A copy of a random query has what Spark had after the batch that the store names, always.

The queries, their batches and their files are those that Spark wrote for `tests/contract`, where
every row is compared with Spark's own reader. Copies are killed before and after any request, Spark
deletes old batches under them, and the pod is killed.
"""

import json
import shutil
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from random import Random  # noqa: TID251 the seed is in the test's id.
from typing import Any

import pyarrow as pa
import pytest

from qss_client import Store
from qss_client.http.sync_http import SyncHttp
from qss_client.writes.writers import delete_writer, list_writers
from qss_spark.mirroring.copies.state_copy import StateCopy
from qss_spark.mirroring.rows.store_rows import StoreRows
from qss_spark.mirroring.state_follower import StateFollower
from qss_spark.mirroring.verification import verify
from qss_spark.state.errors import CheckpointError
from qss_testing.pods.pod_process import PodCluster
from qss_testing.writers.committed_query import FILES, Query

SEEDS = range(12)
ACTIONS, WRITER = 30, "model"
NAMES = sorted(file.stem for file in FILES.glob("*.zip"))


class KilledError(BaseException):
    """The copy's process is killed: no part of the product may catch it."""


class DyingHttp(SyncHttp):
    """A client that is killed before or after a request: the first is number 1."""

    dies_at, is_sent = 0, False

    def request(self, *given: Any, **options: Any) -> Any:
        self.dies_at -= 1
        if self.dies_at == 0 and not self.is_sent:
            raise KilledError
        answer = super().request(*given, **options)
        if self.dies_at == 0:
            raise KilledError
        return answer


class Model:
    """A random part of a random query, and a copy of it that dies again and again."""

    def __init__(self, rng: Random, directory: Path, cluster: PodCluster) -> None:
        self.rng, self._cluster = rng, cluster
        self.query = Query(directory, rng.choice(NAMES))
        self.part = rng.choice(list(self.query.expected))
        self.query.commit_all()
        follower = StateFollower(self.query.path, None, self.part)
        # From before anything is deleted.
        self.states: dict[int, pa.Table] = {
            batch: follower.whole(batch).changed for batch in self.query.batches
        }
        for batch in self.query.batches:
            (self.query.path / "commits" / str(batch)).unlink()
        self.left = list(self.query.batches)
        self._copy: StateCopy | None = None
        self._http = DyingHttp()
        self.commit()

    def commit(self) -> None:
        """The query commits its next batch."""
        if self.left:
            self.query.commit(self.left.pop(0))

    def copy(self) -> None:
        """The copy goes on, and may be killed at any request."""
        self._http.dies_at = self.rng.choice((0, 0, 1, 2, 3, 4, 5))
        self._http.is_sent = self.rng.random() < 0.5
        with suppress(KilledError):
            if self._copy is None:
                follower = StateFollower(self.query.path, None, self.part)
                url, store = self._cluster.url, self._cluster.store
                self._copy = StateCopy(
                    follower, self._http, url, store, WRITER, pause=lambda _: None
                )
            while self._copy.step() is not None:
                self.check()
            self._http.dies_at = 0
            return
        self._http.close()
        self._http, self._copy = DyingHttp(), None

    def forget(self) -> None:
        """Spark deletes the oldest batch, where newer files have its state, too."""
        kept = sorted(int(one.name) for one in (self.query.path / "commits").glob("[0-9]*"))
        if len(kept) < 2:
            return
        before = self.query.path.with_name("before")
        shutil.copytree(self.query.path, before)
        self.query.forget(kept[0])
        try:
            StateFollower(self.query.path, None, self.part).whole(kept[-1])
        except CheckpointError:
            shutil.rmtree(self.query.path)
            before.rename(self.query.path)
        else:
            shutil.rmtree(before)

    def kill_pod(self) -> None:
        """The pod is killed, and started again."""
        if self.rng.random() < 0.2:
            self._cluster.pods[0].kill()
            self._cluster.pods[0].start()

    def check(self) -> None:
        """The store has the rows of the batch that it names, and no other one."""
        with closing(SyncHttp()) as http:
            known = list_writers(http, self._cluster.url, self._cluster.store)
        last = next((one.last_batch for one in known if one.name == WRITER), None)
        if last is None:
            return
        state = self.states[last]
        key, value = (state.schema.field(name).type for name in ("key", "value"))
        with Store(self._cluster.url, self._cluster.store, raw=True) as store:
            rows = StoreRows(store.metadata().definition, key, value)
            verdict = verify(state, store, last, rows, keep_deleted=False)
        assert (verdict.differences, verdict.unlike) == ((), 0)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PodCluster]:
    with PodCluster(tmp_path_factory.mktemp("pods"), key_serde="json") as cluster:
        yield cluster


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_that_a_copy_commits_is_ever_wrong(
    cluster: PodCluster, tmp_path: Path, seed: int
) -> None:
    rng = Random(seed)
    with closing(SyncHttp()) as http:
        if list_writers(http, cluster.url, cluster.store):  # That of the seed before.
            delete_writer(http, cluster.url, cluster.store, WRITER, force=True)
    model = Model(rng, tmp_path, cluster)
    done = []
    for _ in range(ACTIONS):
        action = rng.choices(
            (model.copy, model.commit, model.forget, model.kill_pod), (12, 4, 3, 1)
        )[0]
        action()
        model.check()
        done.append(action.__name__)
    while model.left:
        model.commit()
    for _ in range(20):
        model.copy()
    model.check()
    with closing(SyncHttp()) as http:
        (writer,) = list_writers(http, cluster.url, cluster.store)
    assert writer.last_batch == model.query.batches[-1], json.dumps(done)
    expected = model.query.expected[model.part]
    assert model.states[writer.last_batch].num_rows == len(expected)
