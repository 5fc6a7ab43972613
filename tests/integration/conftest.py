"""Fixtures with stores on the loopback, which are closed after each test."""

import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest

from qss_core.model import PartitionConfiguration
from qss_store.runtime.plugins import NO_EXTENSIONS, Extensions
from qss_store.runtime.settings import Settings
from qss_testing.clients.http import Api
from qss_testing.clients.terminal import ROWS, Terminal
from qss_testing.fakes.strange_pods import Handler, Serve, pod_that
from qss_testing.pods.pod_process import PodCluster
from qss_testing.pods.stores import Cluster, make_definition, open_memory, open_rocksdb
from qss_testing.writers.writer import Record, Writer

if TYPE_CHECKING:
    from playwright.sync_api import Browser
    from pyspark.sql import SparkSession

ENGINES = {"memory": open_memory, "rocksdb": open_rocksdb}
StartCluster = Callable[..., Awaitable[Cluster]]


@pytest.fixture(scope="module")
def browser() -> "Iterator[Browser]":
    """A Chromium for the tests of the console."""
    from qss_testing.console.browser import chromium

    with chromium() as browser:
        yield browser


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    """The connections of a client."""
    async with aiohttp.ClientSession(max_line_size=65536, max_field_size=65536) as session:
        yield session


@pytest.fixture
def api(session: aiohttp.ClientSession) -> Callable[..., Api]:
    """A client of one pod of a cluster."""

    def make(cluster: Cluster, ordinal: int = 0) -> Api:
        return Api(session, cluster.url(ordinal))

    return make


@pytest.fixture
async def start_cluster(tmp_path: Path) -> AsyncIterator[StartCluster]:
    """Starts a store; keyword arguments are members of its definition."""
    clusters: list[Cluster] = []

    async def start(
        pods: int = 1,
        *,
        engine: str = "rocksdb",
        partitions: int = 4,
        configurations: Sequence[PartitionConfiguration] | None = None,
        settings: Settings | None = None,
        extensions: Extensions = NO_EXTENSIONS,
        **members: Any,
    ) -> Cluster:
        cluster = Cluster(
            make_definition(partitions, **members),
            tmp_path / str(len(clusters)),
            ENGINES[engine](),
            settings or Settings(),
            extensions,
        )
        clusters.append(cluster)
        await cluster.start(pods, configurations)
        return cluster

    yield start
    for cluster in clusters:
        await cluster.close()


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    """Starts servers in place of pods."""
    async with AsyncExitStack() as stack:

        async def start(handler: Handler) -> str:
            return await stack.enter_async_context(pod_that(handler))

        yield start


@pytest.fixture(scope="module")
def odd_words(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PodCluster]:
    """Two pods of the store `words`, with rows that are hard to show."""
    with PodCluster(tmp_path_factory.mktemp("pods"), pods=2, partitions=4) as cluster:
        with Writer(cluster.url, cluster.store) as job:
            rows = [Record(key, value, 1000) for key, value in ROWS.items() if value is not None]
            job.write([*rows, Record("", "empty", 1000)], position={"in": {"0": 5}})
        yield cluster


@pytest.fixture
def terminal(
    odd_words: PodCluster, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Terminal:
    """The command `qss` in this process, on a terminal of 60 columns."""
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.delenv("QSS_URL", raising=False)
    return Terminal(odd_words.url, capsys)


@pytest.fixture(scope="session")
def spark() -> "Iterator[SparkSession]":
    """The only Spark of this process: a task has three tries, and results over 2 MiB are refused.

    Its workers are forks of a process that has imported their modules.
    """
    from qss_spark.session import local_session
    from qss_testing.writers.word_counts import SMALL, TESTS

    settings = {
        "spark.master": "local[2,4]",
        "spark.driver.maxResultSize": "2m",
    }
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("PYTHONPATH", str(TESTS))
        environment.setenv(
            "PYSPARK_PYTHON", str(TESTS / "qss_testing" / "writers" / "spark_python")
        )
        environment.setenv("QSS_TESTS_PYTHON", sys.executable)
        session = local_session("tests", configuration={**SMALL, **settings})
    yield session
    session.stop()


@pytest.fixture(scope="session")
def words(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PodCluster]:
    """Three pods of the store `words`; each test has rows and writers of its own there."""
    directory = tmp_path_factory.mktemp("words")
    with PodCluster(directory, pods=3, partitions=12, format="TimestampedWithHeaders") as cluster:
        yield cluster
