"""Every batch is in the store once, wherever the driver, a pod or a worker is killed.

One driver has a query for each moment of its death, with its own writer and rows in one store. A
proxy before the pods holds the requests of most of them; when all have reached their moments, the
driver is killed. This process then continues the same queries from the same checkpoints.
"""

import json
import os
import re
import shutil
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from threading import Barrier, Event, Thread
from typing import Any, Literal

import pytest
from pyspark import TaskContext
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from qss_client import Store
from qss_spark import StoreSink
from qss_testing.faults.proxy import WriterProxy
from qss_testing.pods.pod_process import PodCluster
from qss_testing.waiting import wait_until
from qss_testing.writers import word_counts
from qss_testing.writers.word_counts import (
    DRIVER_S,
    Driver,
    Job,
    expected_counts,
    write_words,
)

pytestmark = pytest.mark.spark

BATCHES = ("a b c d e f", "a b c g", "a h", "i a a")


@dataclass(frozen=True, slots=True)
class Death:
    """The moment of a driver's death: before or after the pods see a request, or after a batch."""

    request: str | None = None
    after: bool = False
    collect: Literal["always", "never"] = "always"
    stops_after: int | None = None
    batches: tuple[str, ...] = BATCHES


_COMMIT = "POST .*/{}/.*batches/1/commit(\\?|$)"
DEATHS = {
    "stage-not-answered": Death("PUT .*/{}/.*/batches/1/chunks/", after=True, collect="never"),
    "batch-not-sent": Death(_COMMIT),
    "batch-not-answered": Death(_COMMIT, after=True),
    "commit-not-sent": Death(_COMMIT, collect="never"),
    "commit-not-answered": Death(_COMMIT, after=True, collect="never"),
    "commit-answered": Death(stops_after=2),
}
REPLACED = "replaced"
OLDER = "older"


@dataclass(slots=True)
class Scene:
    """The store, the proxy before it, and the started drivers."""

    directory: Path
    cluster: PodCluster
    proxy: WriterProxy
    drivers: list[Driver] = field(default_factory=list)
    held_up: Event = field(default_factory=Event)
    released: Event = field(default_factory=Event)

    def start(self, *jobs: Job) -> Driver:
        driver = Driver(self.directory, self.proxy.url, *jobs)
        self.drivers.append(driver)
        return driver

    def hold(self, writer: str, epoch: str | None = None) -> None:
        """Keeps the commit of batch 1 from the pods until `released` is set.

        The driver repeats it after two seconds, in its epoch, which is kept from them, too.
        """
        if epoch is None:
            sent = (
                re.search(rf"/writers/{writer}/([0-9]+)/", one.request) for one in self.proxy.passed
            )
            epoch = next(found[1] for found in sent if found)
        request = _COMMIT.format(f"{writer}/{epoch}")
        self.proxy.watch(request, partial(self.hold, writer, epoch))
        self.held_up.set()
        assert self.released.wait(2 * DRIVER_S)

    def sink(self, writer: str, **options: Any) -> StoreSink:
        return StoreSink(word_counts.STORE, self.proxy.url, writer, valueColumns=["n"], **options)

    def go_on(
        self, spark: SparkSession, writer: str, sink: StoreSink | None = None, weight: int = 1
    ) -> None:
        """Runs the query of a writer in this process until it has read its whole input."""
        job, written_by = Job(writer=writer), sink or self.sink(writer)
        word_counts.start(spark, self.directory, written_by, job, weight=weight).awaitTermination()

    def checkpoint(self, writer: str) -> Path:
        return self.directory / f"{writer}-checkpoint"

    def write(self, writer: str, *batches: str) -> None:
        write_words(self.directory / f"{writer}-input", *batches)

    def held(self, writer: str) -> dict[str, int]:
        with Store(self.cluster.url, word_counts.STORE) as store:
            return {row.key: row.value for row in store.prefix(f"{writer}/")}

    def commits(self, writer: str) -> list[tuple[int, bool]]:
        """The batches of successful commits, and whether the store had applied them before."""
        pattern = re.compile(rf"POST .*/writers/{writer}/[0-9]+/batches/([0-9]+)/commit(?:\?|$)")
        return [
            (int(found[1]), json.loads(one.body)["alreadyApplied"])
            for one in self.proxy.passed
            if (found := pattern.match(one.request)) and one.status == 200
        ]

    def applied(self, writer: str) -> list[int]:
        """The batches that commits applied; a commit that takes two seconds is sent again."""
        return [batch for batch, already in self.commits(writer) if not already]

    def batch_seen(self, writer: str) -> set[int | None]:
        """The component `@batch.<writer>` of every partition's position."""
        with Store(self.cluster.url, word_counts.STORE) as store:
            results = store.query("RangeQuery", lower=f"{writer}/", upper=f"{writer}/")
        return {
            one.position.offset_of(f"@batch.{writer}", 1)
            for one in results.partition_results.values()
            if one.position is not None
        }


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    directory = tmp_path_factory.mktemp("drivers")
    with (
        PodCluster(directory, pods=3, partitions=12) as cluster,
        WriterProxy(cluster.pods) as proxy,
    ):
        scene = Scene(directory, cluster, proxy)
        yield scene
        scene.released.set()
        for driver in scene.drivers:
            driver.__exit__()


@pytest.fixture(scope="module")
def killed(scene: Scene) -> Driver:
    """The driver that died at all of the moments at once."""
    deaths = {**DEATHS, REPLACED: Death(stops_after=1, batches=("a", "a"))}
    jobs: list[Job] = []
    reached = Barrier(1 + len(deaths))
    died = Event()

    def wait() -> None:
        reached.wait(DRIVER_S)
        assert died.wait(DRIVER_S)

    for writer, death in deaths.items():
        scene.write(writer, *death.batches)
        job = Job(writer=writer, collect=death.collect, stops_after=death.stops_after)
        jobs.append(job)
        if death.request is not None:
            scene.proxy.watch(death.request.format(writer), wait, after=death.after)
        else:
            Thread(target=partial(_wait_for, job.stopped_at(scene.directory), wait)).start()
    driver = scene.start(*jobs)
    try:
        reached.wait(DRIVER_S)
    except BaseException:
        reached.abort()  # Else the others would wait; after success some still leave the barrier.
        raise
    finally:
        driver.kill()
        died.set()
    return driver


def _wait_for(file: Path, then: Callable[[], None]) -> None:
    wait_until(file.exists, DRIVER_S)
    then()


@pytest.mark.parametrize("writer", DEATHS)
@pytest.mark.usefixtures("killed")
def test_the_query_of_a_killed_driver_continues_and_every_batch_is_there_once(
    scene: Scene, spark: SparkSession, writer: str
) -> None:
    scene.go_on(spark, writer)

    assert scene.held(writer) == expected_counts(writer, *BATCHES)
    assert scene.batch_seen(writer) == {len(BATCHES) - 1}
    first = [batch for batch, already in scene.commits(writer) if not already]
    assert first == list(range(len(BATCHES)))


@pytest.mark.usefixtures("killed")
def test_a_rerun_batch_replaces_the_state_that_a_dead_driver_left(
    scene: Scene, spark: SparkSession
) -> None:
    """The driver died between the state of a batch and its commit; then the program changes."""
    scene.go_on(spark, REPLACED, weight=100)  # Batch 1 again: 1 from batch 0, plus 100.
    scene.write(REPLACED, "a")
    scene.go_on(spark, REPLACED, weight=100)  # Batch 2 reads the state from the files of batch 1.
    assert scene.held(REPLACED) == {f"{REPLACED}/a": 201}


def test_the_older_of_two_drivers_gets_stale_writer_and_ends(
    scene: Scene, spark: SparkSession
) -> None:
    scene.write(OLDER, *BATCHES)
    scene.proxy.watch(_COMMIT.format(OLDER), partial(scene.hold, OLDER))
    driver = scene.start(Job(writer=OLDER))
    assert scene.held_up.wait(DRIVER_S)
    scene.go_on(spark, OLDER)
    scene.released.set()

    assert driver.ended() == 1
    assert "STALE_WRITER" in driver.said()
    assert scene.held(OLDER) == expected_counts(OLDER, *BATCHES)
    assert scene.applied(OLDER) == [0, 1, 2, 3]


def test_another_checkpoint_is_refused_until_it_takes_over(
    scene: Scene, spark: SparkSession
) -> None:
    scene.write("moved", "a b", "a c")
    scene.go_on(spark, "moved")
    shutil.rmtree(scene.checkpoint("moved"))
    with pytest.raises(StreamingQueryException, match="OTHER_CHECKPOINT"):
        scene.go_on(spark, "moved")

    scene.write("moved", "a d")
    scene.go_on(spark, "moved", scene.sink("moved", onNewCheckpoint="takeOver"))
    assert scene.held("moved") == expected_counts("moved", "a b", "a c", "a d")
    assert scene.batch_seen("moved") == {1}, "the last batch of the first generation"
    assert scene.applied("moved") == [0, 1, 0, 1, 2]
    before = scene.commits("moved")
    scene.go_on(spark, "moved", scene.sink("moved", onNewCheckpoint="takeOver"))
    assert scene.commits("moved") == before, "the checkpoint owns the writer now"


def test_a_checkpoint_that_was_set_back_is_refused_clearly(
    scene: Scene, spark: SparkSession
) -> None:
    scene.write("set-back", "a")
    scene.go_on(spark, "set-back")
    shutil.copytree(scene.checkpoint("set-back"), scene.directory / "backup")
    scene.write("set-back", "b")
    scene.go_on(spark, "set-back")
    shutil.rmtree(scene.checkpoint("set-back"))
    (scene.directory / "backup").rename(scene.checkpoint("set-back"))
    with pytest.raises(StreamingQueryException, match=r"BATCH_MISMATCH.*takeOver"):
        scene.go_on(spark, "set-back")
    assert scene.held("set-back") == {"set-back/a": 1, "set-back/b": 1}


@pytest.mark.parametrize("collect", ["always", "never"])
def test_requests_without_an_answer_are_sent_again(
    scene: Scene, spark: SparkSession, collect: str
) -> None:
    writer = f"lost-{collect}"
    scene.write(writer, *BATCHES)
    for request in (rf"/{writer}(\?|$)", f"/{writer}/.*/chunks/", f"/{writer}/.*/commit(\\?|$)"):
        scene.proxy.watch(request, lambda: None, after=True, loses_answer=True)
        scene.proxy.watch(request, lambda: None, loses_answer=True)
    scene.go_on(spark, writer, scene.sink(writer, collect=collect))
    assert scene.held(writer) == expected_counts(writer, *BATCHES)
    assert scene.applied(writer) == [0, 1, 2, 3]
    assert (0, True) in scene.commits(writer)


def test_a_task_whose_worker_is_killed_is_tried_again(scene: Scene, spark: SparkSession) -> None:
    @F.udf("string", useArrow=False)
    def die_once(word: str) -> str:
        context = TaskContext.get()
        if context is not None and context.attemptNumber() == 0 and word == "c":
            os.kill(os.getpid(), signal.SIGKILL)
        return f"worker/{word}"

    scene.write("worker", "a b", "c d", "e")
    lines = spark.readStream.option("maxFilesPerTrigger", 1).text(
        str(scene.directory / "worker-input")
    )
    (
        lines.select(die_once("value").alias("key"), F.lit("7").alias("n"))
        .writeStream.foreachBatch(scene.sink("worker", collect="never"))
        .option("checkpointLocation", str(scene.checkpoint("worker")))
        .trigger(availableNow=True)
        .start()
        .awaitTermination()
    )
    assert scene.held("worker") == {f"worker/{word}": 7 for word in "abcde"}
    assert scene.applied("worker") == [0, 1, 2]


def test_a_killed_pod_has_its_staged_rows_after_the_restart(
    scene: Scene, spark: SparkSession
) -> None:
    pod = scene.cluster.pods[1]

    def restart() -> None:
        pod.kill()
        pod.start()
        scene.cluster.assign(pod)

    scene.write("pod", *BATCHES)
    scene.proxy.watch("POST .*/pod/.*/batches/1/commit(\\?|$)", restart)
    scene.proxy.watch("POST .*/pod/.*/batches/2/commit(\\?|$)", pod.kill)
    scene.proxy.watch("POST .*/pod/.*/batches/2/commit(\\?|$)", restart)
    scene.go_on(spark, "pod")
    assert scene.held("pod") == expected_counts("pod", *BATCHES)
    assert [batch for batch, already in scene.commits("pod") if not already] == [0, 1, 2, 3]


def test_the_store_numbers_each_batch_once(scene: Scene) -> None:
    decided = {
        one.request.partition("?")[0]
        for one in scene.proxy.passed
        if one.request.partition("?")[0].endswith("/commit") and one.status == 200
        if not json.loads(one.body)["alreadyApplied"]
    }
    with Store(scene.cluster.url, word_counts.STORE) as store:
        results = store.query("RangeQuery").partition_results.values()
    assert {result.sequence for result in results} == {len(decided)}
