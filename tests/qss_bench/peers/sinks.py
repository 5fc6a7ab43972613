"""What users write into `foreachBatch` in a store's place: PostgreSQL exactly once, Redis."""

from typing import Protocol

import psycopg
import pyarrow as pa
import redis
from pyspark.sql import DataFrame

_PIPELINE_ROWS = 10_000
_COMMAND_ROWS = 1_000  # Longer commands would make Redis' other callers wait.
_SCHEMA = """
CREATE TABLE IF NOT EXISTS counts (key text PRIMARY KEY, value {type} NOT NULL);
CREATE TABLE IF NOT EXISTS batches (query text PRIMARY KEY, batch bigint NOT NULL)
"""
_UPSERT = """
INSERT INTO counts SELECT key, value FROM staged ON CONFLICT (key) DO UPDATE SET value = {value}
"""


class Sink(Protocol):
    """Writes one micro-batch with the columns key and value, a text each, distinct keys."""

    def __call__(self, rows: DataFrame, batch: int, /) -> None:
        """Writes the rows of a batch, before it returns."""


class PostgresSink:
    """COPY into a staging table, one upsert, and the number of the batch, in one transaction.

    `adds`: the values are numbers, and a batch adds to what is there; else it replaces.
    """

    def __init__(self, place: str, *, query: str = "bench", adds: bool = False) -> None:
        """Connects, and makes the tables where they are absent."""
        value_type = "bigint" if adds else "text"
        self._query = query
        self._connection = psycopg.connect(place)
        self._connection.execute(_SCHEMA.format(type=value_type))
        self._connection.execute(
            f"CREATE TEMP TABLE staged (key text, value {value_type}) ON COMMIT DELETE ROWS"
        )
        self._connection.execute(
            "INSERT INTO batches VALUES (%s, -1) ON CONFLICT DO NOTHING", [query]
        )
        self._connection.commit()
        self._upsert = _UPSERT.format(
            value="counts.value + excluded.value" if adds else "excluded.value"
        )

    def __call__(self, rows: DataFrame, batch: int, /) -> None:
        """Writes a batch, unless an earlier run has committed it."""
        table = rows.toArrow()
        with self._connection.transaction():
            marked = self._connection.execute(
                "UPDATE batches SET batch = %s WHERE query = %s AND batch < %s",
                [batch, self._query, batch],
            )
            if not marked.rowcount:
                return
            with self._connection.cursor().copy("COPY staged FROM STDIN") as copy:
                copy.write(_copy_text(table))
            self._connection.execute(self._upsert)


def _copy_text(rows: pa.Table) -> bytes:
    """The rows in the text format of COPY, made by Arrow: several times as quick as row by row."""
    escaped = [
        pa.compute.replace_substring(rows[name].cast(pa.string()), "\\", "\\\\")
        for name in ("key", "value")
    ]
    lines = pa.compute.binary_join_element_wise(*escaped, "\t")
    return "".join(f"{line}\n" for line in lines.to_pylist()).encode()


class RedisSink:
    """A pipeline of MSET, or of INCRBY where a batch adds; a batch that is repeated runs again.

    MSET takes a third of the time of as many SETs: most of it is the client's.
    """

    def __init__(self, port: int, *, adds: bool = False) -> None:
        """Connects at the first batch."""
        self._redis = redis.Redis(port=port)
        self._adds = adds

    def __call__(self, rows: DataFrame, batch: int, /) -> None:
        """Writes a batch, some thousand rows at a time."""
        table = rows.toArrow()
        pairs = list(zip(table["key"].to_pylist(), table["value"].to_pylist(), strict=True))
        for first in range(0, len(pairs), _PIPELINE_ROWS):
            with self._redis.pipeline(transaction=False) as commands:
                self._put(commands, pairs[first : first + _PIPELINE_ROWS])
                commands.execute()

    def _put(self, commands: "redis.client.Pipeline", pairs: list[tuple[str, str]]) -> None:
        if self._adds:
            for key, value in pairs:
                commands.incrby(key, int(value))
            return
        for first in range(0, len(pairs), _COMMAND_ROWS):
            commands.mset(dict(pairs[first : first + _COMMAND_ROWS]))
