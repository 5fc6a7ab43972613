"""What Spark's offset log says of a batch: its fingerprint, and how far it reads the inputs. Pure.

A file of the log: a version line, a line of metadata (watermark, batch timestamp), then one line of
JSON for each source in plan order. It is written before the batch runs and never changed.
"""

import hashlib
import json
from dataclasses import dataclass
from typing import Any

from qss_core.errors import MalformedRequestError
from qss_core.wire import PositionJson

_VERSION = "v1"
_NOTHING_READ = "-"


@dataclass(frozen=True, slots=True)
class BatchOffsets:
    """One batch's entry in the offset log."""

    fingerprint: str  # SHA-256 of the raw lines, in hex.
    position: PositionJson


def read_offsets(raw: bytes, writer: str) -> BatchOffsets:
    """The entry in the bytes of its file. Raises MalformedRequestError for another version."""
    lines = raw.decode().splitlines()
    if len(lines) < 2 or lines[0] != _VERSION:
        version = lines[0] if lines else "nothing"
        raise MalformedRequestError(
            f"the offset log is written as {version}, only {_VERSION} is understood: set "
            "spark.sql.streaming.offsetLog.formatVersion=1"
        )
    position: PositionJson = {}
    for index, line in enumerate(lines[2:]):
        for topic, offsets in _topics(f"{writer}.source-{index}", line).items():
            position.setdefault(topic, {}).update(offsets)
    return BatchOffsets(hashlib.sha256(raw).hexdigest(), position)


def _topics(source: str, line: str) -> PositionJson:
    if line == _NOTHING_READ:
        return {source: {}}
    try:
        offset = json.loads(line)
    except ValueError:
        return {source: {}}
    if _is_kafka(offset):
        return {topic: _last_read(offsets) for topic, offsets in offset.items()}
    number = _number(offset)
    return {source: {} if number is None else {"0": number}}


def _is_kafka(offset: Any) -> bool:
    return (
        isinstance(offset, dict)
        and bool(offset)
        and all(isinstance(offsets, dict) for offsets in offset.values())
        and all(
            partition.isdigit() and type(end) is int
            for offsets in offset.values()
            for partition, end in offsets.items()
        )
    )


def _last_read(offsets: dict[str, int]) -> dict[str, int]:
    """Kafka's end offsets are exclusive; a position holds what was read."""
    return {partition: end - 1 for partition, end in offsets.items() if end > 0}


def _number(offset: Any) -> int | None:
    """The number in the shapes of Spark's own sources; None for one that has none."""
    if isinstance(offset, dict):
        offset = next((offset[name] for name in ("logOffset", "offset") if name in offset), None)
    return offset if type(offset) is int and offset >= 0 else None
