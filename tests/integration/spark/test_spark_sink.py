"""`StoreSink`: its options, the ways of its rows, and its refusals."""

import re
import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from qss_client import Store
from qss_client.http.sync_http import SyncHttp
from qss_client.writes.writers import list_writers
from qss_core.errors import MalformedRequestError, StoreNotFoundError
from qss_spark import StoreSink
from qss_spark.sink.checkpoints import blind_hosts
from qss_testing.faults.proxy import WriterProxy
from qss_testing.pods.pod_process import PodCluster
from qss_testing.waiting import wait_until
from qss_testing.writers.streams import JsonStream, held, run_query

pytestmark = pytest.mark.spark

KEY_VALUE = "key string, value string"


@pytest.fixture(scope="module")
def proxy(words: PodCluster) -> Iterator[WriterProxy]:
    with WriterProxy(words.pods) as proxy:
        yield proxy


def ways(proxy: WriterProxy, writer: str) -> list[str]:
    """The way of each batch's rows: with the commit, or staged by the driver or by tasks."""
    batch = rf"/writers/{writer}/.*/batches/([0-9]+)"
    commits = re.compile(rf"POST .*{batch}/commit")
    chunks = re.compile(rf"PUT .*{batch}/chunks/[^.]*\.([a-z]+)")
    found: dict[int, str] = {}
    for one in proxy.passed:
        if match := chunks.match(one.request):
            found[int(match[1])] = {"driver": "driver", "t": "tasks"}[match[2]]
        elif match := commits.match(one.request):
            found.setdefault(int(match[1]), "commit")
    return [found[batch] for batch in sorted(found)]


@pytest.mark.parametrize("collect", ["always", "never"])
def test_rows_with_all_members_are_written_both_ways(
    spark: SparkSession, words: PodCluster, proxy: WriterProxy, tmp_path: Path, collect: Any
) -> None:
    name = f"all-{collect}"
    stream = JsonStream(
        spark,
        tmp_path,
        "key string, n int, m double, timestamp timestamp, "
        "headers array<struct<key: string, value: binary>>",
    )
    stream.write(
        [
            {"key": f"{name}/a", "n": 1, "m": 0.5, "timestamp": "2026-01-01T00:00:00.123Z"},
            {
                "key": f"{name}/b",
                "n": 2,
                "timestamp": "2026-01-01T00:00:01Z",
                "headers": [{"key": "h", "value": "aGk="}, {"key": "h"}],
            },
        ],
        [{"key": f"{name}/a", "n": 3, "timestamp": "2026-01-01T00:00:02Z"}],
    )
    stream.run(StoreSink("words", proxy.url, name, collect=collect, valueColumns=["n", "m"]))
    with Store(words.url, "words") as store:
        first, second = store.prefix(f"{name}/b"), store.prefix(f"{name}/a")
        (b,), (a,) = list(first), list(second)
    assert (b.value, b.timestamp) == ({"n": 2, "m": None}, 1_767_225_601_000)
    assert b.headers == (("h", "aGk="), ("h", None))
    assert (a.value, a.timestamp, a.headers) == ({"n": 3, "m": None}, 1_767_225_602_000, ())
    assert set(ways(proxy, name)) == {"commit" if collect == "always" else "tasks"}


def test_a_null_value_deletes(spark: SparkSession, words: PodCluster, tmp_path: Path) -> None:
    stream = JsonStream(spark, tmp_path, KEY_VALUE)
    stream.write(
        [{"key": "null/a", "value": "1"}, {"key": "null/b", "value": "2"}], [{"key": "null/a"}]
    )
    stream.run(StoreSink("words", words.url, "null"))
    assert held(words, "null/") == {"null/b": 2}


def test_an_ended_query_closes_its_writer_while_the_program_runs(
    spark: SparkSession, words: PodCluster, tmp_path: Path
) -> None:
    stream = JsonStream(spark, tmp_path, KEY_VALUE)
    stream.write([{"key": "ended/a", "value": "1"}])
    stream.run(StoreSink("words", words.url, "ended"))
    http = SyncHttp()
    with closing(http):
        wait_until(lambda: is_closed(http, words, "ended"))
    stream.write([{"key": "ended/b", "value": "2"}])
    stream.run(StoreSink("words", words.url, "ended"))
    assert held(words, "ended/") == {"ended/a": 1, "ended/b": 2}, "a closed query can start again"


def is_closed(http: SyncHttp, cluster: PodCluster, writer: str) -> bool:
    found = list_writers(http, cluster.url, cluster.store)
    return next(one.silent_s for one in found if one.name == writer) is None


def test_update_mode_sends_changed_rows(
    spark: SparkSession, words: PodCluster, proxy: WriterProxy, tmp_path: Path
) -> None:
    stream = JsonStream(spark, tmp_path, "key string")
    stream.write([{"key": "up/a"}] * 3 + [{"key": "up/b"}], [{"key": "up/a"}])
    counts = stream.rows().groupBy("key").agg(F.count("*").alias("n"))
    stream.run(StoreSink("words", proxy.url, "up", valueColumns=["n"]), counts, "update")
    assert held(words, "up/") == {"up/a": 4, "up/b": 1}


def test_complete_mode_needs_replace_and_then_removes_rows(
    spark: SparkSession, words: PodCluster, tmp_path: Path
) -> None:
    stream = JsonStream(spark, tmp_path, KEY_VALUE)
    stream.write([{"key": "full/a", "value": "1"}], [{"key": "full/b", "value": "2"}])
    newest = (
        stream.rows()
        .groupBy()
        .agg(F.max_by("key", "value").alias("key"), F.max("value").alias("value"))
    )
    with pytest.raises(StreamingQueryException, match=r"MALFORMED_REQUEST: .*replace=True"):
        stream.run(StoreSink("words", words.url, "full"), newest, "complete")
    stream.run(StoreSink("words", words.url, "full", replace=True), newest, "complete")
    assert held(words, "full/") == {"full/b": 2}


@pytest.mark.parametrize("collect", ["always", "never"])
def test_a_null_key_is_refused(
    spark: SparkSession, words: PodCluster, tmp_path: Path, collect: Any
) -> None:
    name = f"nokey-{collect}"
    stream = JsonStream(spark, tmp_path, KEY_VALUE)
    stream.write([{"key": f"{name}/a", "value": "1"}, {"value": "2"}])
    with pytest.raises(StreamingQueryException, match="NULL_KEY: 1 rows have no key"):
        stream.run(StoreSink("words", words.url, name, collect=collect))
    assert held(words, f"{name}/") == {}


def test_missing_columns_are_named(spark: SparkSession, words: PodCluster, tmp_path: Path) -> None:
    stream = JsonStream(spark, tmp_path, "word string, value string")
    stream.write([{"word": "a", "value": "1"}])
    sink = StoreSink("words", words.url, "missing", valueColumns=["n", "m"])
    with pytest.raises(StreamingQueryException, match=r"\['key', 'm', 'n'\] are missing"):
        stream.run(sink)


def test_columns_may_have_dots_in_their_names(
    spark: SparkSession, words: PodCluster, tmp_path: Path
) -> None:
    stream = JsonStream(spark, tmp_path, "`a.key` string, `a.n` int, `a.m` int")
    stream.write([{"a.key": "dot/a", "a.n": 1, "a.m": 2}])
    sink = StoreSink("words", words.url, "dot", keyColumns=["a.key"], valueColumns=["a.n", "a.m"])
    stream.run(sink)
    assert held(words, "dot/") == {"dot/a": {"a.n": 1, "a.m": 2}}


# --- The way of a batch


def big(name: str, rows: int, value: str = "1") -> list[dict[str, Any]]:
    return [{"key": f"{name}/{number:05d}", "value": value} for number in range(rows)]


def test_the_size_of_a_batch_decides_the_way_of_the_next_batch(
    spark: SparkSession, words: PodCluster, proxy: WriterProxy, tmp_path: Path
) -> None:
    stream = JsonStream(spark, tmp_path, KEY_VALUE)
    long = '"' + "x" * 60 + '"'
    stream.write(big("auto", 10), big("auto", 10_000, long), big("auto", 10), big("auto", 10, "2"))
    stream.run(StoreSink("words", proxy.url, "auto"))
    assert ways(proxy, "auto") == ["commit", "driver", "tasks", "commit"]
    assert set(held(words, "auto/0000").values()) == {2}


def test_the_first_batch_is_judged_by_sparks_estimate(
    spark: SparkSession, words: PodCluster, proxy: WriterProxy, tmp_path: Path
) -> None:
    unknown = (spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 5).load()).select(
        F.concat(F.lit("unknown/"), "value").alias("key"), F.lit("1").alias("value")
    )
    run_query(unknown, StoreSink("words", proxy.url, "unknown"), tmp_path / "c")
    assert ways(proxy, "unknown")[0] == "tasks", "Spark has no estimate for this source"

    stream = JsonStream(spark, tmp_path, KEY_VALUE)
    stream.write(big("large", 10, '"' + "x" * 900_000 + '"'))
    stream.run(StoreSink("words", proxy.url, "large"))
    assert ways(proxy, "large") == ["tasks"]
    assert len(held(words, "large/")) == 10


def test_a_result_too_large_for_the_driver_goes_through_the_tasks(
    spark: SparkSession, words: PodCluster, proxy: WriterProxy, tmp_path: Path
) -> None:
    value = '"' + "x" * 30_000 + '"'
    stream = JsonStream(spark, tmp_path, KEY_VALUE)
    stream.write(big("over", 100, value), big("over", 1))
    stream.run(StoreSink("words", proxy.url, "over", collect="always"))
    assert ways(proxy, "over") == ["tasks", "commit"]
    found = held(words, "over/")
    assert (len(found), found["over/00000"]) == (100, 1)


# --- Checkpoints, sessions and options


@pytest.mark.parametrize(
    "name", ["a b", "a#b?c", "a%20b", "ä"], ids=["space", "marks", "escape", "umlaut"]
)
def test_a_checkpoint_may_be_anywhere(
    spark: SparkSession, words: PodCluster, tmp_path: Path, name: str
) -> None:
    stream = JsonStream(spark, tmp_path, KEY_VALUE, name)
    stream.write([{"key": f"{name}/a", "value": "1"}])
    stream.run(StoreSink("words", words.url, f"where-{name.encode().hex()}"))
    assert held(words, f"{name}/") == {f"{name}/a": 1}


def test_a_query_of_another_session_of_the_program_may_write(
    spark: SparkSession, words: PodCluster, tmp_path: Path
) -> None:
    stream = JsonStream(spark.newSession(), tmp_path, KEY_VALUE)
    stream.write([{"key": "new/a", "value": "1"}])
    stream.run(StoreSink("words", words.url, "new"))
    assert held(words, "new/") == {"new/a": 1}


def test_a_sink_outside_foreach_batch_is_refused(spark: SparkSession, words: PodCluster) -> None:
    rows = spark.createDataFrame([("a", "1")], KEY_VALUE)
    with pytest.raises(MalformedRequestError, match="called by foreachBatch"):
        StoreSink("words", words.url)(rows, 0)


def test_an_unknown_store_is_refused_at_once(words: PodCluster) -> None:
    with pytest.raises(StoreNotFoundError, match="this pod serves store words"):
        StoreSink("word", words.url)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"url": "127.0.0.1:8080"}, "a URL like http://127.0.0.1:8080 is needed"),
        ({"url": "http://x", "onNewCheckpoint": "takeover"}, "refuse, takeOver"),
        ({"url": "http://x", "collect": "sometimes"}, "auto, always, never"),
        ({"url": "http://x", "keyColumns": "word"}, "keyColumns is a list of names"),
        ({"url": "http://x", "valueColumns": []}, "valueColumns is a list of names"),
    ],
)
def test_wrong_options_are_refused_before_anything_starts(
    options: dict[str, Any], message: str
) -> None:
    with pytest.raises(MalformedRequestError, match=message):
        StoreSink("words", **options)


def test_executors_that_do_not_see_the_drivers_checkpoint_are_found(
    spark: SparkSession, tmp_path: Path
) -> None:
    mark = tmp_path / "mark"
    assert blind_hosts(spark.sparkContext, mark) == [socket.gethostname()]
    mark.touch()
    assert blind_hosts(spark.sparkContext, mark) == []
