"""Makes checkpoints by Spark, with the rows that Spark's own reader finds in their state.

`python -m qss_testing.writers.spark_state DIRECTORY [QUERY ...]` writes a zip for each query and
each way of keeping state: the checkpoint, and `expected.json`. The files of
`tests/contract/spark_state` were made so, by the version of Spark that names their folder. The
queries in Scala (`spark_queries.SCALA`) are made by the program `spark-shell` of the same Spark.
"""

import json
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa

from qss_testing.waiting import wait_until
from qss_testing.writers.spark_queries import (
    JOIN_3,
    JOIN_4,
    JOIN_FORMATS,
    PROCESSORS,
    QUERIES,
    SCALA,
    SCALA_PROCESSOR,
    SCHEMA,
    VARIABLES,
    WITH_TIMERS,
    can_run,
    query_of,
)

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
_SIDES = ("left", "right")
_FILES, _ROWS = 4, 12


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
        case timedelta():
            return value // timedelta(microseconds=1)
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
    target, queries = Path(sys.argv[1]), sys.argv[2:] or (*QUERIES, *SCALA)
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
    source = directory / "in"
    source.mkdir()
    for file in range(_FILES):
        lines = [json.dumps(input_row(file, row)) for row in range(_ROWS)]
        (source / f"{file}.json").write_text("\n".join(lines))
    queries = [one for one in queries if can_run(one, way, pyspark.__version__)]
    for query in SCALA:
        if query in queries:  # Before this process has a Spark.
            _run_scala(query, source, directory / query, chosen)
    session = local_session(f"state-{way}", configuration=chosen)
    for query in queries:
        session.conf.set(_JOIN_FORMAT, JOIN_FORMATS.get(query, "2"))
        checkpoint = directory / query
        if query not in SCALA:
            _run(session, query, source, checkpoint)
        parts = {part: in_order(rows) for part, rows in _read(session, query, checkpoint).items()}
        document = {"spark": session.version, "parts": parts}
        (checkpoint / EXPECTED).write_text(json.dumps(document, indent=1))
        _pack(checkpoint, target / f"{query}-{way}.zip")
    session.stop()


def _run(session: Any, query: str, source: Path, checkpoint: Path) -> None:
    rows = session.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(str(source))
    made, mode = query_of(rows, query)
    writer = made.writeStream.format("noop").outputMode(mode)
    writer = writer.option("checkpointLocation", str(checkpoint))
    if query != "ttl":
        writer.trigger(availableNow=True).start().awaitTermination()
        return
    running = writer.trigger(processingTime="1 second").start()  # Such a query never ends.
    last = checkpoint / "commits" / str(_FILES)
    wait_until(last.exists, timeout_s=60.0)
    running.stop()


def _run_scala(
    query: str, source: Path, checkpoint: Path, configuration: Mapping[str, str]
) -> None:
    import pyspark

    home = Path(pyspark.__file__).parent
    options = [f"--conf={name}={value}" for name, value in configuration.items()]
    with Path(__file__).with_suffix(".scala").open() as program:
        subprocess.run(
            [home / "bin" / "spark-shell", "--master=local[2]", *options],
            env={
                **os.environ,
                "SPARK_HOME": str(home),
                "STATE_QUERY": query,
                "STATE_SOURCE": str(source),
                "STATE_CHECKPOINT": str(checkpoint),
            },
            stdin=program,
            check=True,
            timeout=300,
        )


def _read(session: Any, query: str, checkpoint: Path) -> dict[str, Any]:
    """The rows of each part by Spark's own reader, as [key, value]."""

    def read(**options: str) -> list[Any]:
        frame = session.read.format("statestore").options(**options).load(str(checkpoint))
        return _rows(frame)

    if query in ("join", JOIN_3):
        return {side: read(storeName=f"{side}-keyWithIndexToValue") for side in _SIDES}
    if query == JOIN_4:
        return {side: _lists(read(storeName=f"{side}-keyWithTsToValues")) for side in _SIDES}
    if query not in (*PROCESSORS, SCALA_PROCESSOR):
        return {"": read()}
    parts = {name: read(stateVarName=name) for name in VARIABLES[query]}
    if "delays" in parts:
        parts["delays"] = read(stateVarName="delays", flattenCollectionTypes="false")
    if query in WITH_TIMERS:
        timers = read(readRegisteredTimers="true")
        parts["registered-timers"] = [[row, [None]] for row in timers]
    return parts


def _rows(frame: Any) -> list[Any]:
    from qss_spark.mirroring.rows.spark_rows import with_months

    rows, kept = [], frame.drop("partition_id")
    columns = [with_months(one.name, one.dataType).alias(one.name) for one in kept.schema]
    for row in kept.select(*columns).collect():
        given = [plain(one) for one in row]
        key = [given[0], given[1]] if len(given) == 3 else given[0]
        rows.append([key, given[-1]])
    return rows


def _lists(rows: list[Any]) -> list[Any]:
    """Rows whose values are the lists of what Spark's reader shows one by one."""
    lists: dict[str, list[Any]] = {}
    for key, value in rows:
        lists.setdefault(json.dumps(key), []).append(value)
    return [[json.loads(key), values] for key, values in lists.items()]


def _pack(checkpoint: Path, file: Path) -> None:
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for one in sorted(checkpoint.rglob("*")):
            if one.is_file() and not one.name.endswith(".crc"):
                archive.write(one, str(one.relative_to(checkpoint)))


if __name__ == "__main__":
    main()
