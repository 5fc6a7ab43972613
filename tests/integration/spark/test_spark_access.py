"""Spark with a token and a certificate authority: tasks get the paths and read the files."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from qss_client import Store
from qss_core.errors import ForbiddenError
from qss_spark import StoreSink
from qss_testing.fakes.reviewer import Reviewer, make_token
from qss_testing.pods.certificates import Authority
from qss_testing.pods.guarded import BOTH, READER, guarded, rights
from qss_testing.pods.pod_process import PodCluster
from qss_testing.writers.streams import JsonStream

pytestmark = pytest.mark.spark


@dataclass(frozen=True)
class Guarded:
    """A store over https that checks its callers."""

    cluster: PodCluster
    ca_file: str
    tokens: dict[str, str]

    def options(self, account: str) -> dict[str, Any]:
        """The options by which an account reaches the store."""
        shown = {"tokenFile": self.tokens[account], "caFile": self.ca_file}
        return {"url": self.cluster.url, "store": "words", **shown}

    def held(self, prefix: str) -> dict[str, Any]:
        """The values under a prefix."""
        token_file = self.tokens[READER]
        with Store(self.cluster.url, "words", token_file=token_file, ca_file=self.ca_file) as store:
            return {row.key: row.value for row in store.prefix(prefix)}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    directory = tmp_path_factory.mktemp("guarded")
    authority = Authority.make(directory / "authority")
    tls = authority.issue(directory / "tls")
    tokens = {}
    for account in (READER, BOTH):
        path = directory / account.rpartition(":")[2]
        path.write_text(make_token(account))
        tokens[account] = str(path)
    options: dict[str, Any] = {"operator": {"ca_file": authority.file}, "pods": 2}
    with (
        Reviewer(rights()) as reviewer,
        guarded(directory, reviewer, ("--tls-dir", str(tls)), **options) as cluster,
    ):
        yield Guarded(cluster, str(authority.file), tokens)


@pytest.mark.parametrize("collect", ["always", "never"])
def test_a_stream_is_written_by_the_driver_and_by_tasks(
    spark: SparkSession, store: Guarded, tmp_path: Path, collect: Any
) -> None:
    given = store.options(BOTH)
    stream = JsonStream(spark, tmp_path, "key string, value string")
    stream.write([{"key": f"{collect}/a", "value": "1"}], [{"key": f"{collect}/b", "value": "2"}])
    stream.run(StoreSink(**given, writer=collect, collect=collect))
    assert store.held(f"{collect}/") == {f"{collect}/a": 1, f"{collect}/b": 2}


def test_dataframes_are_written_and_read(spark: SparkSession, store: Guarded) -> None:
    rows = spark.createDataFrame([("df/a", "1"), ("df/b", "2")], "key string, value string")
    rows.write.format("queryablestate").options(**store.options(BOTH)).mode("append").save()
    read = spark.read.format("queryablestate").options(**store.options(READER), prefix="df/")
    assert sorted(row["key"] for row in read.load().collect()) == ["df/a", "df/b"]


def test_a_refused_writer_gets_the_name_of_the_missing_right(
    spark: SparkSession, store: Guarded
) -> None:
    rows = spark.createDataFrame([("no/a", "1")], "key string, value string")
    writer = rows.write.format("queryablestate").options(**store.options(READER)).mode("append")
    with pytest.raises(PySparkException, match=f"{ForbiddenError.code}: {READER} may not update"):
        writer.save()
