"""Makes checkpoints by Spark, with the rows that Spark's own reader finds in their state.

`python -m qss_testing.writers.spark_state DIRECTORY [QUERY ...]` writes a zip for each query and
each way of keeping state: the checkpoint, and `expected.json`. The files of
`tests/contract/spark_state` were made so, by the version of Spark that names their folder.
"""

import json
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa

from qss_testing.waiting import wait_until

EXPECTED = "expected.json"
_STATE = "spark.sql.streaming.stateStore."
_PROVIDERS = "org.apache.spark.sql.execution.streaming.state."
_FORMAT = f"{_STATE}checkpointFormatVersion"
_JOIN_FORMAT = "spark.sql.streaming.join.stateFormatVersion"
_ROCKSDB = {
    f"{_STATE}providerClass": f"{_PROVIDERS}RocksDBStateStoreProvider",
    f"{_STATE}rocksdb.changelogCheckpointing.enabled": "true",
}
_SNAPSHOTS = {
    f"{_STATE}minDeltasForSnapshot": "2",
    f"{_STATE}maintenanceInterval": "100ms",
}
# The ways of keeping state, by their names.
WAYS: Mapping[str, Mapping[str, str]] = {
    "hdfs": {f"{_STATE}providerClass": f"{_PROVIDERS}HDFSBackedStateStoreProvider", **_SNAPSHOTS},
    "rocksdb": _ROCKSDB,
    "rocksdb-zstd": {
        **_ROCKSDB,
        **_SNAPSHOTS,
        f"{_STATE}compression.codec": "zstd",
        _FORMAT: "2",
    },
}
PROCESSORS = ("processor", "ttl")
JOIN_3 = "join-format-3"  # With column families, which only RocksDB has, and Spark 4.1 or newer.
QUERIES = (
    *("aggregation", "windows", "sessions", "dedup", "dedup-watermark", "join"),
    JOIN_3,
    *PROCESSORS,
)
_SCHEMA = (
    "k string, n long, d double, t timestamp, b byte, s short, i int, z boolean, f float, y date, "
    "u timestamp_ntz, x binary, m decimal(12,3), w decimal(30,5), a array<string>, "
    "p map<string,long>, r struct<q:string,v:array<int>>, o string"
)
_FILES, _ROWS = 4, 12
_TTL_MS = 2500  # With a batch each second, some rows of the newest batches are left.


def plain(value: Any) -> Any:
    """A value in JSON, the same for rows of Spark and of Arrow; the members of a row are a list."""
    match value:
        case datetime():
            whole = value if value.tzinfo is None else value.astimezone(UTC).replace(tzinfo=None)
            return whole.isoformat()
        case date():
            return value.isoformat()
        case Decimal():
            return str(value)
        case bytes() | bytearray():
            return value.hex()
        case dict():
            return in_order([plain(key), plain(one)] for key, one in value.items())
        case tuple() | list():
            return [plain(one) for one in value]
    return value


def plain_row(value: Any, kind: pa.DataType) -> Any:
    """As `plain`, for a value of Arrow."""
    return plain(_like_spark(value, kind))


def _like_spark(value: Any, kind: pa.DataType) -> Any:
    """A struct as a tuple, and a map as a dict."""
    if value is None:
        return None
    if pa.types.is_struct(kind):
        return tuple(_like_spark(value[one.name], one.type) for one in kind)
    if pa.types.is_list(kind):
        return [_like_spark(one, kind.value_type) for one in value]
    if pa.types.is_map(kind):
        return {key: _like_spark(one, kind.item_type) for key, one in value}
    return value


def in_order(rows: Iterable[Any]) -> list[Any]:
    """Rows in one order, whatever the order of their partitions."""
    return sorted(rows, key=lambda row: json.dumps(row, sort_keys=True))


def input_row(file: int, row: int) -> dict[str, Any]:
    """A row of the input; some values are null."""
    time = f"2026-01-01T00:{file:02}:{row:02}"
    return {
        "k": f"k{row % 5}",
        "n": file * 100 + row,
        "d": row / 4,
        "t": f"{time}Z",
        "b": row,
        "s": None if row % 5 == 1 else row - 300,
        "i": -row,
        "z": row % 2 == 0,
        "f": row / 10,
        "y": f"2026-02-{row + 1:02}",
        "u": f"{time}.5",
        "x": "AP8=",
        "m": f"{row}.125",
        "w": f"-{10**20 + row}.00001",
        "a": ["ä", None, f"file {file}"] if row % 5 else [],
        "p": {"one": row, "two": None},
        "o": None if row % 5 in (1, 3) else f"o{row}",
        "r": {"q": "text", "v": [row, None]} if row % 5 != 2 else None,
    }


def main() -> None:
    """Writes checkpoints into the directory that the command line names."""
    target, queries = Path(sys.argv[1]), sys.argv[2:] or QUERIES
    target.mkdir(parents=True, exist_ok=True)
    for name, configuration in WAYS.items():
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:
            _make(Path(directory), name, configuration, target, queries)


def _make(
    directory: Path,
    way: str,
    configuration: Mapping[str, str],
    target: Path,
    queries: Iterable[str],
) -> None:
    import pyspark

    from qss_spark.session import SHORT_RUN, local_session

    chosen = {**SHORT_RUN, "spark.sql.shuffle.partitions": "2", **configuration}
    if pyspark.__version__ < "4.1":
        chosen.pop(_FORMAT, None)  # Spark 4.0 does not read its own state of format 2.
    session = local_session(f"state-{way}", configuration=chosen)
    source = directory / "in"
    source.mkdir()
    for file in range(_FILES):
        lines = [json.dumps(input_row(file, row)) for row in range(_ROWS)]
        (source / f"{file}.json").write_text("\n".join(lines))
    for query in queries:
        if query in (JOIN_3, *PROCESSORS) and way == "hdfs":
            continue  # Spark refuses it.
        if query == JOIN_3 and pyspark.__version__ < "4.1":
            continue
        session.conf.set(_JOIN_FORMAT, "3" if query == JOIN_3 else "2")
        checkpoint = directory / query
        _run(session, query, source, checkpoint)
        document = {"spark": session.version, "parts": _read(session, query, checkpoint)}
        (checkpoint / EXPECTED).write_text(json.dumps(document, indent=1))
        _pack(checkpoint, target / f"{query}-{way}.zip")
    session.stop()


def _run(session: Any, query: str, source: Path, checkpoint: Path) -> None:
    rows = session.readStream.schema(_SCHEMA).option("maxFilesPerTrigger", 1).json(str(source))
    made, mode = _query(rows, query)
    writer = made.writeStream.format("noop").outputMode(mode)
    writer = writer.option("checkpointLocation", str(checkpoint))
    if query != "ttl":
        writer.trigger(availableNow=True).start().awaitTermination()
        return
    running = writer.trigger(processingTime="1 second").start()  # Such a query never ends.
    last = checkpoint / "commits" / str(_FILES)
    wait_until(last.exists, timeout_s=60.0)
    running.stop()


def _query(rows: Any, query: str) -> tuple[Any, str]:
    from pyspark.sql import functions as F  # noqa: N812 the field's own habit.

    late = rows.withWatermark("t", "10 seconds")
    match query:
        case "aggregation":
            names = [one.partition(" ")[0] for one in _SCHEMA.split(", ") if one[0] not in "k"]
            sums = [F.count("*"), F.sum("n"), F.avg("d"), F.max("m"), F.max("w")]
            return rows.groupBy("k").agg(*sums, F.max_by(F.struct(*names), "n")), "update"
        case "windows":
            return late.groupBy(F.window("t", "30 seconds"), "k").count(), "append"
        case "sessions":
            return late.groupBy(F.session_window("t", "5 seconds"), "k").count(), "append"
        case "dedup":
            return rows.dropDuplicates(["k", "b"]), "append"
        case "dedup-watermark":
            return late.dropDuplicatesWithinWatermark(["k"]), "append"
        case "join" | "join-format-3":
            other = late.select(F.col("k").alias("k2"), F.col("t").alias("t2"), "n", "w", "a")
            within = F.expr("k = k2 and t2 >= t and t2 <= t + interval 1 minute")
            return late.join(other.alias("o"), within, "leftOuter").select("k", "t2"), "append"
    return _fading(rows) if query == "ttl" else _processor(rows), "update"


def _fading(rows: Any) -> Any:
    """Variables whose values have a time to live; each file is the last one for one key."""
    import pandas as pd  # type: ignore[import-untyped]
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor

    class Fading(StatefulProcessor):
        def init(self, handle: Any) -> None:
            self._last = handle.getValueState("last", "n long, d double", _TTL_MS)
            self._delays = handle.getListState("delays", "d double, q string", _TTL_MS)
            self._ports = handle.getMapState("ports", "p string", "c long", _TTL_MS)

        def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:  # noqa: N802, N803
            for frame in rows:
                for row in frame.itertuples():
                    file = row.n // 100
                    if key[0] in (f"k{file}", "k4"):
                        self._last.update((row.n, row.d))
                    self._delays.appendValue((row.d, f"q{row.n}"))
                    self._ports.updateValue((f"p{file}",), (row.n,))
            yield pd.DataFrame({"k": [key[0]]})

        def close(self) -> None:
            """The processor has nothing to close."""

    grouped = rows.select("k", "n", "d").groupBy("k")
    return grouped.transformWithStateInPandas(Fading(), "k string", "update", "processingTime")


def _processor(rows: Any) -> Any:
    import pandas as pd
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor

    class Delays(StatefulProcessor):
        def init(self, handle: Any) -> None:
            self._last = handle.getValueState("last", "n long, d double")
            self._delays = handle.getListState("delays", "d double, q string")
            self._ports = handle.getMapState("ports", "p string", "c long")

        def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:  # noqa: N802, N803
            for frame in rows:
                for row in frame.itertuples():
                    self._last.update((row.n, row.d))
                    self._delays.appendValue((row.d, f"q{row.n}"))
                    port = (f"p{row.n % 3}",)
                    seen = self._ports.getValue(port)[0] if self._ports.containsKey(port) else 0
                    self._ports.updateValue(port, (seen + 1,))
            if len(held := list(self._delays.get())) > 6:
                self._delays.put(held[-4:])
            if key[0] == "k3":
                self._last.clear()
            yield pd.DataFrame({"k": [key[0]]})

        def close(self) -> None:
            """The processor has nothing to close."""

    grouped = rows.select("k", "n", "d").groupBy("k")
    return grouped.transformWithStateInPandas(Delays(), "k string", "update", "none")


def _read(session: Any, query: str, checkpoint: Path) -> dict[str, Any]:
    """The rows of each part by Spark's own reader, as [key, value]."""

    def read(**options: str) -> list[Any]:
        frame = session.read.format("statestore").options(**options).load(str(checkpoint))
        return _rows(frame)

    if query in ("join", JOIN_3):
        sides = ("left", "right")
        return {side: read(storeName=f"{side}-keyWithIndexToValue") for side in sides}
    if query in PROCESSORS:
        return {
            "last": read(stateVarName="last"),
            "delays": read(stateVarName="delays", flattenCollectionTypes="false"),
            "ports": read(stateVarName="ports"),
        }
    return {"": read()}


def _rows(frame: Any) -> list[Any]:
    rows = []
    for row in frame.drop("partition_id").collect():
        given = [plain(one) for one in row]
        key = [given[0], given[1]] if len(given) == 3 else given[0]
        rows.append([key, given[-1]])
    return in_order(rows)


def _pack(checkpoint: Path, file: Path) -> None:
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for one in sorted(checkpoint.rglob("*")):
            if one.is_file() and not one.name.endswith(".crc"):
                archive.write(one, str(one.relative_to(checkpoint)))


if __name__ == "__main__":
    main()
