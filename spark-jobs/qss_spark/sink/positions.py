"""Reads a batch's entry in Spark's offset log: its fingerprint and its end offsets. Pure.

A file of the log has a version line, a line of metadata (watermark, batch timestamp), and one line
of JSON for each source in plan order. Spark writes it before the batch runs, and never changes it.
"""

import hashlib
import json
import re
from dataclasses import dataclass
from typing import Any

from qss_core.errors import MalformedRequestError
from qss_core.positions import PositionJson

_VERSION = "v1"
_NOTHING_READ = "-"
_PARTITION = re.compile("0|[1-9][0-9]{0,9}")
_PARTITION_MAX = 2**31 - 1
_OFFSET_MAX = 2**63 - 1


@dataclass(frozen=True, slots=True)
class BatchOffsets:
    """One batch's entry in the offset log."""

    fingerprint: str  # SHA-256 of the raw lines, in hex.
    position: PositionJson


def read_offsets(raw: bytes, writer: str) -> BatchOffsets:
    """Reads the bytes of an entry's file. Raises MalformedRequestError for another version."""
    lines = raw.decode().split("\n")  # splitlines() would also split at separators inside JSON.
    if len(lines) < 2 or lines[0] != _VERSION:
        raise MalformedRequestError(
            f"the offset log is written as {lines[0] or 'nothing'}, only {_VERSION} is understood: "
            "set spark.sql.streaming.offsetLog.formatVersion=1"
        )
    ends: PositionJson = {}
    for index, line in enumerate(lines[2:]):
        for topic, offsets in _ends(f"{writer}.source-{index}", line).items():
            _take_slower(ends.setdefault(topic, {}), offsets)
    return BatchOffsets(
        hashlib.sha256(raw).hexdigest(),
        {topic: _last_read(offsets) for topic, offsets in ends.items()},
    )


def _ends(source: str, line: str) -> PositionJson:
    """The end of the batch's input, exclusive, by topic and partition."""
    if line == _NOTHING_READ:
        return {source: {}}
    try:
        offset = json.loads(line)
    except ValueError:
        return {source: {}}
    if _is_kafka(offset):
        return dict(offset)
    number = _number(offset)
    return {source: {} if number is None else {"0": number + 1}}


def _take_slower(ends: dict[str, int], others: dict[str, int]) -> None:
    """Keeps the smaller end of two sources of one topic: both have read up to it."""
    for partition, end in others.items():
        ends[partition] = min(end, ends.get(partition, end))


def _last_read(ends: dict[str, int]) -> dict[str, int]:
    """The last offsets that were read, without partitions of which none was read."""
    return {partition: end - 1 for partition, end in ends.items() if end > 0}


def _is_kafka(offset: Any) -> bool:
    return (
        isinstance(offset, dict)
        and bool(offset)
        and all(isinstance(offsets, dict) for offsets in offset.values())
        and all(
            _is_partition(partition) and type(end) is int and end <= _OFFSET_MAX
            for offsets in offset.values()
            for partition, end in offsets.items()
        )
    )


def _is_partition(text: str) -> bool:
    return bool(_PARTITION.fullmatch(text)) and int(text) <= _PARTITION_MAX


def _number(offset: Any) -> int | None:
    """The number in an offset of Spark's own sources; None for other shapes."""
    if isinstance(offset, dict):
        offset = next((offset[name] for name in ("logOffset", "offset") if name in offset), None)
    return offset if type(offset) is int and 0 <= offset < _OFFSET_MAX else None
