"""`format("queryablestate")` writes DataFrames to a store and reads them."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from qss_client import Store
from qss_client.http.sync_http import SyncHttp
from qss_client.writes.writers import list_writers
from qss_core.model import Partitioner
from qss_spark import StoreSink
from qss_testing.pods.pod_process import PodCluster
from qss_testing.writers.process_writer import ProcessWriter
from qss_testing.writers.streams import JsonStream, held, positions

pytestmark = pytest.mark.spark

UUIDS = ("00000000-0000-0000-0000-000000000001", "6f8f2b0e-52f6-4c6f-8d5e-0b1c2d3e4f50")
# Members of the definition, types of the columns, and rows.
STORES: dict[str, tuple[dict[str, Any], str, list[tuple[Any, ...]]]] = {
    "int64": (
        {"key_serde": "int64", "value_serde": "float64", "format": "Timestamped"},
        "key long, value double, timestamp long",
        [(-5, 0.5, 1), (0, float("inf"), 2), (2**62, -0.0, 3)],
    ),
    "uuid": (
        {"key_serde": "uuid", "value_serde": "list<int32>", "format": "Plain"},
        "key string, value array<int>",
        [(UUIDS[0], [1, None, 3]), (UUIDS[1], [])],
    ),
    "bytes": (
        {"key_serde": "bytes", "value_serde": "bytes", "format": "TimestampedWithHeaders"},
        "key binary, value binary, timestamp long, "
        "headers array<struct<key: string, value: binary>>",
        [
            (b"\x00\xff", b"", 5, [("h", b"1"), ("h", None)]),
            (b"a/b", b"\x80", 6, []),
        ],
    ),
    "explicit": (
        {
            "value_serde": "boolean",
            "format": "TimestampedWithHeaders",
            "partitioner": Partitioner.EXPLICIT,
        },
        "key string, value boolean, timestamp long, "
        "headers array<struct<key: string, value: binary>>",
        [("a", True, 5, []), ("b", False, 6, [("x", b"y")])],
    ),
}


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, PodCluster]]:
    clusters = {
        name: PodCluster(tmp_path_factory.mktemp(name), partitions=3, **members)
        for name, (members, *_) in STORES.items()
    }
    with ExitStack() as stack, ThreadPoolExecutor(len(clusters)) as pool:
        list(pool.map(stack.enter_context, clusters.values()))
        yield clusters


def write(rows: DataFrame, cluster: PodCluster, mode: str = "append") -> None:
    writer = rows.write.format("queryablestate").option("url", cluster.url)
    writer.option("store", cluster.store).mode(mode).save()


def read(spark: SparkSession, cluster: PodCluster, **options: Any) -> DataFrame:
    reader = spark.read.format("queryablestate").option("url", cluster.url)
    return reader.option("store", cluster.store).options(**options).load()


def keys(rows: DataFrame) -> list[Any]:
    return sorted(row["key"] for row in rows.collect())


def plain(rows: list[Any]) -> list[Any]:
    """Rows as sorted tuples, to compare them."""
    return sorted(
        tuple(
            [tuple(one) for one in value]
            if isinstance(value, list) and name == "headers"
            else value
            for name, value in row.asDict().items()
        )
        for row in rows
    )


def fill(spark: SparkSession, stores: dict[str, PodCluster], name: str) -> None:
    """Writes the rows of the store, also over the same rows of an earlier call."""
    _, schema, rows = STORES[name]
    frame = spark.createDataFrame(rows, schema)
    if name == "explicit":
        frame = frame.selectExpr("*", "if(key = 'a', 2, 0) as partition")
    write(frame, stores[name])


@pytest.mark.parametrize("name", STORES)
def test_written_rows_are_read_again(
    spark: SparkSession, stores: dict[str, PodCluster], name: str
) -> None:
    fill(spark, stores, name)
    _, schema, rows = STORES[name]
    found = read(spark, stores[name])
    read_schema = schema.replace("timestamp long", "timestamp timestamp")
    assert found.schema.simpleString() == StructType.fromDDL(read_schema).simpleString()
    # A time of a schema with longs is milliseconds; that of the year 292 million has no timestamp.
    reader = spark.read.format("queryablestate").options(url=stores[name].url).schema(schema)
    assert plain(reader.load(stores[name].store).collect()) == sorted(rows)


def test_a_key_of_an_explicit_partition_is_found_there(
    spark: SparkSession, stores: dict[str, PodCluster]
) -> None:
    fill(spark, stores, "explicit")
    assert keys(read(spark, stores["explicit"], key="a")) == ["a"]
    assert keys(read(spark, stores["explicit"], partitions="2")) == ["a"]
    assert keys(read(spark, stores["explicit"], partitions="0,1")) == ["b"]


def test_a_range_of_numbers_follows_the_order_of_their_bytes(
    spark: SparkSession, stores: dict[str, PodCluster]
) -> None:
    fill(spark, stores, "int64")
    # In Kafka's encoding, negative numbers sort after positive numbers.
    assert keys(read(spark, stores["int64"], **{"from": "0"})) == [-5, 0, 2**62]
    assert keys(read(spark, stores["int64"], key="-5")) == [-5]


# --- The store `words`


@pytest.fixture(scope="module")
def filled(spark: SparkSession, words: PodCluster) -> PodCluster:
    rows = [(f"fmt/{letter}{number}", str(number)) for letter in "ab" for number in range(20)]
    write(spark.createDataFrame([*rows, ("fmt/a/b %2F", '"x"')], "key string, value string"), words)
    return words


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"key": "fmt/a7"}, ["fmt/a7"]),
        ({"key": "fmt/absent"}, []),
        ({"key": "fmt/a/b %2F"}, ["fmt/a/b %2F"]),
        ({"prefix": "fmt/a1"}, ["fmt/a1", *(f"fmt/a1{number}" for number in range(10))]),
        ({"from": "fmt/a8", "to": "fmt/b0"}, ["fmt/a8", "fmt/a9", "fmt/b0"]),
        ({"from": "fmt/b9", "to": "fmt/~"}, ["fmt/b9"]),
        ({"prefix": "fmt/none"}, []),
        ({"keys": '["fmt/a7", "fmt/b3", "fmt/absent"]'}, ["fmt/a7", "fmt/b3"]),
        ({"keys": "[]"}, []),
    ],
)
def test_a_read_may_select_keys(
    spark: SparkSession, filled: PodCluster, options: dict[str, str], expected: list[str]
) -> None:
    assert keys(read(spark, filled, **options)) == sorted(expected)


def test_a_read_may_select_partitions(spark: SparkSession, filled: PodCluster) -> None:
    parts = [
        keys(read(spark, filled, prefix="fmt/", partitions=some))
        for some in ("0,1,2,3,4,5", "6,7,8,9,10,11")
    ]
    assert all(parts)
    assert sorted(parts[0] + parts[1]) == keys(read(spark, filled, prefix="fmt/"))
    assert read(spark, filled, partitions="0,1").rdd.getNumPartitions() == 2


def test_a_given_schema_is_a_projection(spark: SparkSession, filled: PodCluster) -> None:
    reader = spark.read.format("queryablestate").option("url", filled.url)
    reader = reader.option("store", "words").option("key", "fmt/a7")
    rows = reader.schema("value string, key string").load().collect()
    assert [row.asDict() for row in rows] == [{"value": "7", "key": "fmt/a7"}]
    assert reader.schema("timestamp long").load().count() == 1


def test_each_action_reads_a_dataframe_again(spark: SparkSession, words: PodCluster) -> None:
    rows = read(spark, words, prefix="again/")
    assert rows.count() == 0
    write(spark.createDataFrame([("again/a", "1")], "key string, value string"), words)
    assert rows.count() == 1
    assert rows.filter("value = '1'").count() == 1
    assert rows.count() == 1


def test_a_read_is_at_least_as_new_as_its_bound(spark: SparkSession, filled: PodCluster) -> None:
    with Store(filled.url, "words") as store:
        assert store.get("fmt/a7") is not None
        token = store.position
    for bound in (str(token.to_json()).replace("'", '"'), '{"another.topic": {"0": 1}}'):
        assert keys(read(spark, filled, key="fmt/a7", positionBound=bound)) == ["fmt/a7"]


def test_a_timestamp_column_is_the_rows_time(spark: SparkSession, words: PodCluster) -> None:
    rows = spark.createDataFrame(
        [("time/a", "1", datetime(2026, 1, 1, tzinfo=UTC))],
        "key string, value string, timestamp timestamp",
    )
    write(rows, words)
    found = read(spark, words, key="time/a")
    times = "unix_millis(timestamp) as ms", "timestamp = timestamp'2026-01-01 00:00:00Z' as same"
    assert [tuple(row) for row in found.selectExpr(*times).collect()] == [(1_767_225_600_000, True)]
    write(found.selectExpr("'time/b' as key", "value", "timestamp"), words)
    copied = read(spark, words, key="time/b")
    assert copied.select("timestamp").collect() == found.select("timestamp").collect()


def test_json_values_are_read_by_a_given_schema(spark: SparkSession, words: PodCluster) -> None:
    texts = ['{"n": 1, "at": "2026-01-01T00:00:00Z", "more": 0}', '{"tags": ["x"]}', "null"]
    rows = [(f"json/{place}", text) for place, text in enumerate(texts)]
    write(spark.createDataFrame(rows, "key string, value string"), words)
    schema = "key string, value struct<n: int, at: timestamp, tags: array<string>>"
    reader = spark.read.format("queryablestate").options(url=words.url, prefix="json/")
    found = reader.schema(schema).load("words").sort("key")
    columns = "value.n", "unix_seconds(value.at)", "value.tags"
    assert [tuple(row) for row in found.selectExpr(*columns).collect()] == [
        (1, 1_767_225_600, None),
        (None, None, ["x"]),
        (None, None, None),
    ]
    with pytest.raises(PySparkException, match="value of key 'json/0' is not of the given type"):
        reader.schema("key string, value struct<n: array<int>>").load("words").collect()


def test_append_adds_and_a_null_deletes(spark: SparkSession, words: PodCluster) -> None:
    rows = [("add/a", "1"), ("add/b", "2")]
    write(spark.createDataFrame(rows, "key string, value string"), words)
    write(
        spark.createDataFrame([("add/b", None), ("add/c", "3")], "key string, value string"), words
    )
    assert held(words, "add/") == {"add/a": 1, "add/c": 3}


def test_overwrite_replaces_all_rows_and_keeps_the_streams_positions(
    spark: SparkSession, words: PodCluster, tmp_path: Path
) -> None:
    stream = JsonStream(spark, tmp_path, "key string, value string")
    stream.write([{"key": "old/a", "value": "1"}])
    stream.run(StoreSink("words", words.url, "old"))
    write(spark.createDataFrame([("only", "7")], "key string, value string"), words, "overwrite")
    assert held(words, "") == {"only": 7}
    assert positions(words)["@batch.old"] == {"1": 0}

    stream.write([{"key": "old/b", "value": "2"}])
    stream.run(StoreSink("words", words.url, "old"))
    assert held(words, "") == {"only": 7, "old/b": 2}
    write(spark.createDataFrame([], "key string, value string"), words, "overwrite")
    assert held(words, "") == {}


# --- Refusals


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"keyz": "a"}, "UNKNOWN_PARAMETER: option 'keyz' is unknown: .*prefix"),
        ({"keys": "a"}, "MALFORMED_REQUEST: keys is a JSON array of keys"),
        (
            {"key": "a", "prefix": "b"},
            "MALFORMED_REQUEST: give one of key, keys, prefix, or from and to",
        ),
        ({"from": "b", "to": "a"}, "RANGE_REVERSED"),
        ({"key": "a", "partitions": "0,1"}, "MALFORMED_REQUEST: give key or partitions"),
        ({"partitions": "0,x"}, "MALFORMED_REQUEST: partitions are numbers like 0,3"),
        ({"partitions": "99"}, "DOES_NOT_EXIST"),
        ({"positionBound": "{no"}, "MALFORMED_REQUEST: positionBound"),
        ({"positionBound": "!"}, "MALFORMED_REQUEST: positionBound"),
        ({"store": "word"}, "STORE_NOT_FOUND: this pod serves store words"),
        ({"url": ""}, "STORE_NOT_FOUND: no local cluster in .* has a store words: give its URL"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_a_wrong_read_is_refused(
    spark: SparkSession, words: PodCluster, options: dict[str, str], message: str
) -> None:
    with pytest.raises(PySparkException, match=message):
        read(spark, words, **options).collect()


def test_a_column_that_no_store_has_is_refused(spark: SparkSession, words: PodCluster) -> None:
    reader = spark.read.format("queryablestate").option("url", words.url).option("store", "words")
    with pytest.raises(PySparkException, match=r"store columns are .* not \['n'\]"):
        reader.schema("n int").load().collect()


def test_a_column_of_another_type_is_refused(spark: SparkSession, words: PodCluster) -> None:
    reader = spark.read.format("queryablestate").option("url", words.url).option("store", "words")
    with pytest.raises(PySparkException, match=r"column key of store words is a string, not a"):
        reader.schema("key int, value string").load().collect()


@pytest.mark.parametrize(
    ("schema", "mode", "message"),
    [
        ("word string, value string", "append", r"\['key'\] are missing"),
        ("key string, value string", "error", "UNSUPPORTED_DATA_SOURCE_SAVE_MODE"),
        ("key string, value string", "ignore", "UNSUPPORTED_DATA_SOURCE_SAVE_MODE"),
    ],
)
def test_a_wrong_write_is_refused(
    spark: SparkSession, words: PodCluster, schema: str, mode: str, message: str
) -> None:
    with pytest.raises(PySparkException, match=message):
        write(spark.createDataFrame([("refused/a", "1")], schema), words, mode)
    assert held(words, "refused/") == {}


def test_a_failed_write_leaves_nothing(spark: SparkSession, words: PodCluster) -> None:
    rows = [(f"torn/{number}", "1") for number in range(50)]
    frame = spark.createDataFrame([*rows, (None, "1")], "key string, value string")
    with pytest.raises(PySparkException, match="NULL_KEY"):
        write(frame.repartition(4), words)
    assert held(words, "torn/") == {}


@pytest.mark.parametrize(
    ("rows", "schema", "message"),
    [
        ([("a", "1")], "word string, value string", r"\['key'\] are missing"),
        ([(7, "1")], "key int, value string", 'column "key" has type int'),
        ([(None, "1")], "key string, value string", "NULL_KEY"),
    ],
    ids=["no-column", "other-type", "in-a-task"],
)
def test_a_failed_write_leaves_no_writer_open(
    spark: SparkSession, words: PodCluster, rows: list[Any], schema: str, message: str
) -> None:
    with pytest.raises(PySparkException, match=message):
        write(spark.createDataFrame(rows, schema), words)
    with closing(SyncHttp()) as http:
        writers = list_writers(http, words.url, words.store)
    unfinished = [one for one in writers if one.one_off and one.last_batch is None]
    assert [one for one in unfinished if one.silent_s is not None] == []


def test_an_unknown_option_of_a_write_is_refused(spark: SparkSession, words: PodCluster) -> None:
    rows = spark.createDataFrame([("a", "1")], "key string, value string")
    writer = rows.write.format("queryablestate").option("url", words.url).option("store", "words")
    with pytest.raises(PySparkException, match="UNKNOWN_PARAMETER: option 'keycolumn'"):
        writer.option("keyColumn", "word").mode("append").save()


def test_staged_rows_are_read_with_the_option_isolation(
    spark: SparkSession, tmp_path: Path
) -> None:
    with PodCluster(tmp_path, pods=1, partitions=2) as cluster:
        writer = ProcessWriter(cluster, "w")
        writer.open()
        rows = writer.rows_of("a")
        written = sorted(key.decode() for of_it in rows.values() for key in of_it)
        staged = writer.stage(0, rows)
        assert keys(read(spark, cluster)) == []
        assert keys(read(spark, cluster, isolation="read_uncommitted")) == written
        assert keys(read(spark, cluster, isolation="READ_COMMITTED")) == []
        with pytest.raises(PySparkException, match="not 'DIRTY'"):
            read(spark, cluster, isolation="DIRTY").collect()
        writer.commit(0, staged)
        assert keys(read(spark, cluster)) == written
        writer.close()
