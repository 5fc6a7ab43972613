"""The routes that a batch learns after a failover are known to the next batch."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
from aiohttp import web
from msgspec.structs import replace
from pyspark.sql.types import LongType, StringType, StructField, StructType

from qss_client.chunks.chunk import checksum_of
from qss_core.errors import NotActiveError
from qss_core.model import Sequence
from qss_core.wire.messages import (
    AbortAnswer,
    CommitAnswer,
    SliceResult,
    StageAnswer,
    StoreMetadata,
    encode,
    problem_of,
)
from qss_spark import StoreSink
from qss_spark.options import Access, SinkBatch
from qss_spark.rows import Columns
from qss_spark.sink.batch_steps import stage_task
from qss_testing.fakes.strange_pods import pod_that
from qss_testing.waiting import wait_until
from qss_testing.writers.exchange_steps import metadata, opened

ROWS = pa.RecordBatch.from_pydict({"key": ["a", "b"], "value": [1, 2]})
SCHEMA = StructType([StructField("key", StringType()), StructField("value", LongType())])


class MovingStore:
    """A store of one partition: pod N is below the path /pod-N, and only the active takes rows."""

    def __init__(self) -> None:
        self.url = ""
        self.active = 0
        self.asked: list[str] = []  # The pods and the last words of the paths.

    def known(self) -> StoreMetadata:
        made = metadata(self.active, store_id="id-moving", epoch=1 + self.active)
        pods = [replace(one, changelog=f"{self.url}/pod-{one.ordinal}") for one in made.instances]
        return replace(made, instances=tuple(pods))

    async def answer(self, request: web.Request) -> web.Response:
        body = await request.read()
        if "/state/instances/" in request.path:
            return web.Response(body=encode(self.known()))
        _, pod, *_, last = request.path.split("/")
        kind = "rows" if "/chunks/" in request.path else last
        self.asked.append(f"{pod} {kind}")
        if pod != f"pod-{self.active}":
            refused = NotActiveError("not the active")
            return web.Response(status=refused.http_status, body=encode(problem_of(refused)))
        answers: dict[str, object] = {
            "rows": StageAnswer(partitions={"0": SliceResult(checksum=checksum_of(body))}),
            "commit": CommitAnswer(sequence=Sequence(1), already_applied=False, position={}),
            "abort": AbortAnswer(decided=False),
        }
        return web.Response(body=encode(answers.get(kind) or opened(self.known())))

    def newly_asked(self) -> list[str]:
        asked, self.asked = self.asked, []
        return asked


class Query:
    """The JVM's query, as far as a sink asks it."""

    def __init__(self, checkpoint: Path) -> None:
        self.is_active = True
        self._checkpoint = checkpoint

    def outputMode(self) -> str:  # noqa: N802 Java's name.
        return "Append"

    def isActive(self) -> bool:  # noqa: N802
        return self.is_active

    def resolvedCheckpointRoot(self) -> str:  # noqa: N802
        return str(self._checkpoint)


def rows_of(query: Query) -> Any:
    """A data frame of two rows in a batch of the query, which the driver collects."""
    properties = {"sql.streaming.queryId": "query", "spark.jobGroup.id": "run"}
    queries = SimpleNamespace(get=lambda _: query)
    state = SimpleNamespace(activeStreamingQueries=lambda: queries)
    session = SimpleNamespace(
        sparkContext=SimpleNamespace(getLocalProperty=properties.get, master="local"),
        _jvm=SimpleNamespace(
            java=SimpleNamespace(util=SimpleNamespace(UUID=SimpleNamespace(fromString=str)))
        ),
        _jsparkSession=SimpleNamespace(sharedState=lambda: state),
    )
    return SimpleNamespace(sparkSession=session, schema=SCHEMA, _collect_as_arrow=lambda: [ROWS])


async def test_a_failover_is_met_once_by_a_query_whose_driver_stages(tmp_path: Path) -> None:
    (tmp_path / "offsets").mkdir()
    for batch in range(3):
        (tmp_path / "offsets" / str(batch)).write_text(f"v1\n{{}}\n{batch}")
    store, query = MovingStore(), Query(tmp_path)
    async with pod_that(store.answer) as store.url:
        sink = await asyncio.to_thread(StoreSink, "words", store.url, collect="always")
        await asyncio.to_thread(sink, rows_of(query), 0)
        assert store.newly_asked() == ["pod-0 words", "pod-0 commit"]
        store.active = 1
        await asyncio.to_thread(sink, rows_of(query), 1)
        assert store.newly_asked() == ["pod-0 commit", "pod-1 commit"]
        await asyncio.to_thread(sink, rows_of(query), 2)
        assert store.newly_asked() == ["pod-1 commit"]
        query.is_active = False
        await asyncio.to_thread(wait_until, lambda: store.asked == ["pod-1 abort"])


async def test_a_failover_is_met_once_by_the_tasks_of_a_worker() -> None:
    """Spark sends each task the routes that the driver knew, and the driver stages no rows."""
    store = MovingStore()
    async with pod_that(store.answer) as store.url:
        batch = SinkBatch(
            store="words",
            writer="words",
            opened=opened(store.known()),
            batch=0,
            position={},
            fingerprint="f",
            replace=False,
        )
        store.active = 1
        asked = []
        for _ in range(2):
            made = await asyncio.to_thread(stage_task, batch, Columns(), Access(), iter([ROWS]))
            assert len(made.staged) == 1
            asked.append(store.newly_asked())
    assert asked == [["pod-0 rows", "pod-1 rows"], ["pod-1 rows"]]
