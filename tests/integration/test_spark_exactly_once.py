"""Every batch is in the store once, wherever the driver, a pod or a worker is killed.

Each driver is a process with its own writer and rows in one store. All drivers start together. A
proxy before the pods kills most of them at a request. This process then continues the same query
from the same checkpoint.
"""

import json
import os
import re
import shutil
import signal
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from pyspark import TaskContext
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from qss_client import Store
from qss_spark import StoreSink
from qss_testing.faults.proxy import WriterProxy
from qss_testing.pods.pod_process import PodCluster
from qss_testing.writers import word_counts
from qss_testing.writers.word_counts import DRIVER_S, Driver, expected_counts, write_words

pytestmark = pytest.mark.spark

BATCHES = ("a b c d e f", "a b c g", "a h", "i a a")


@dataclass(frozen=True, slots=True)
class Death:
    """The point of a driver's death: before or after the pods see a request, or at a batch."""

    options: tuple[str, ...]
    request: str | None = None
    after: bool = False


DEATHS = {
    "stage-not-answered": Death(
        ("--collect", "never"), "PUT .*/{}/.*/batches/1/chunks/", after=True
    ),
    "batch-not-sent": Death((), "POST .*/{}/.*/batches/1/commit(\\?|$)"),
    "batch-not-answered": Death((), "POST .*/{}/.*/batches/1/commit(\\?|$)", after=True),
    "commit-not-sent": Death(("--collect", "never"), "POST .*/{}/.*/batches/1/commit(\\?|$)"),
    "commit-not-answered": Death(
        ("--collect", "never"), "POST .*/{}/.*/batches/1/commit(\\?|$)", after=True
    ),
    "commit-answered": Death(("--dies-after", "2")),
}
OLDER = "older"


@dataclass(slots=True)
class Scene:
    """The store, the proxy before it, and the started drivers."""

    directory: Path
    cluster: PodCluster
    proxy: WriterProxy
    drivers: dict[str, Driver]
    held_up: Event = field(default_factory=Event)
    released: Event = field(default_factory=Event)

    def kill(self, writer: str) -> None:
        self.drivers[writer].kill()

    def hold(self) -> None:
        """Keeps a request from the pods until `released` is set."""
        self.held_up.set()
        assert self.released.wait(2 * DRIVER_S)

    def sink(self, writer: str, **options: Any) -> StoreSink:
        return StoreSink(word_counts.STORE, self.proxy.url, writer, valueColumns=["n"], **options)

    def go_on(self, spark: SparkSession, writer: str, sink: StoreSink | None = None) -> None:
        """Runs the query of a writer in this process until it has read its whole input."""
        word_counts.start(
            spark,
            self.directory / f"{writer}-input",
            self.checkpoint(writer),
            sink or self.sink(writer),
            writer,
        ).awaitTermination()

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
        drivers: dict[str, Driver] = {}
        scene = Scene(directory, cluster, proxy, drivers)
        for writer, death in DEATHS.items():
            scene.write(writer, *BATCHES)
            if death.request is not None:
                request = death.request.format(writer)
                proxy.watch(request, partial(scene.kill, writer), after=death.after)
            drivers[writer] = Driver(directory, proxy.url, writer, *death.options)
        scene.write(OLDER, *BATCHES)
        proxy.watch(f"POST .*/{OLDER}/.*/batches/1/commit(\\?|$)", scene.hold)
        drivers[OLDER] = Driver(directory, proxy.url, OLDER)
        yield scene
        scene.released.set()
        for driver in drivers.values():
            driver.__exit__()


@pytest.mark.parametrize("writer", DEATHS)
def test_the_query_of_a_killed_driver_continues_and_every_batch_is_there_once(
    scene: Scene, spark: SparkSession, writer: str
) -> None:
    driver = scene.drivers[writer]
    assert driver.ended() == -9, driver.said()
    scene.go_on(spark, writer)

    assert scene.held(writer) == expected_counts(writer, *BATCHES)
    assert scene.batch_seen(writer) == {len(BATCHES) - 1}
    first = [batch for batch, already in scene.commits(writer) if not already]
    assert first == list(range(len(BATCHES)))


def test_the_older_of_two_drivers_gets_stale_writer_and_ends(
    scene: Scene, spark: SparkSession
) -> None:
    assert scene.held_up.wait(DRIVER_S)
    scene.go_on(spark, OLDER)
    scene.released.set()

    assert scene.drivers[OLDER].ended() == 1
    assert "STALE_WRITER" in scene.drivers[OLDER].said()
    assert scene.held(OLDER) == expected_counts(OLDER, *BATCHES)
    assert [batch for batch, already in scene.commits(OLDER) if not already] == [0, 1, 2, 3]


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
    assert scene.commits("moved") == [(batch, False) for batch in (0, 1, 0, 1, 2)]
    scene.go_on(spark, "moved", scene.sink("moved", onNewCheckpoint="takeOver"))
    assert scene.commits("moved")[5:] == [], "the checkpoint owns the writer now"


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
    assert scene.commits(writer) == [(0, False), (0, True), (1, False), (2, False), (3, False)]


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
    assert scene.commits("worker") == [(0, False), (1, False), (2, False)]


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
