"""Finds the records of a decompressed state file: puts, deletes and merges. Pure.

HDFS-backed deltas and snapshots, and version 1 of RocksDB's changelogs: the length of a key, the
key, the length of a value, the value; the length -1 is a delete, and as a key the end. Version 2
begins with its name, and each record with a type; its keys begin with the id of their column
family. Versions 3 and 4 are 1 and 2 with a lineage of snapshots before the records.
"""

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from qss_spark.state.errors import CheckpointError

Offsets = NDArray[np.int64]
Bytes = NDArray[np.uint8]
_INT = struct.Struct(">i")
_VERSION_MARK = b"\x00\x02v"  # Java's UTF of `v2`, without its number.
_VERSION_MAX = 4
_TYPED = (2, 4)  # Versions whose records have types, and keys column families.
_WITH_LINEAGE = (3, 4)
_END = -1
FAMILY_BYTES = 2


class Kind(IntEnum):
    """The effect of a record; the numbers stand in the files."""

    END = 0x00
    PUT = 0x01
    DELETE = 0x10
    MERGE = 0x11  # Appends to a value that is a list.
    DELETE_RANGE = 0x20


@dataclass(frozen=True, slots=True)
class Records:
    """The records of one file, in its order: places in `data`, with the lengths of the bytes."""

    data: Bytes
    kinds: NDArray[np.uint8]
    keys: Offsets
    key_sizes: Offsets
    values: Offsets
    value_sizes: Offsets
    size: int = 0  # Of the file.
    # The ids in the names of the files before this one, by version, back to the last snapshot.
    lineage: Mapping[int, str] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.kinds)

    def of_family(self, family: int) -> "Records":
        """The records of one column family; the keys begin behind its id."""
        keys = self.keys
        if np.any(self.key_sizes < FAMILY_BYTES):
            raise CheckpointError("a key lacks the id of its column family: the file is damaged")
        ids = self.data[keys].astype(np.int64) | self.data[keys + 1].astype(np.int64) << 8
        chosen = ids == family
        return Records(
            self.data,
            self.kinds[chosen],
            keys[chosen] + FAMILY_BYTES,
            self.key_sizes[chosen] - FAMILY_BYTES,
            self.values[chosen],
            self.value_sizes[chosen],
        )


def records_of_delta(data: bytes) -> Records:
    """The records of an HDFS-backed delta or snapshot, decompressed."""
    return _records(data, 0, has_types=False)


def records_of_changelog(data: bytes) -> Records:
    """The records of a changelog of RocksDB, decompressed. Raises CheckpointError."""
    version, at = _version(data)
    lineage: Mapping[int, str] = {}
    if version in _WITH_LINEAGE:
        begin = at + 2
        at = begin + int.from_bytes(data[at:begin], "big")
        if begin > len(data) or at > len(data):
            raise CheckpointError("the changelog ends in its lineage: the file is damaged")
        lineage = _lineage(data[begin:at])
    return replace(_records(data, at, has_types=version in _TYPED), lineage=lineage)


def _lineage(text: bytes) -> dict[int, str]:
    try:
        return {int(one["version"]): str(one["checkpointUniqueId"]) for one in json.loads(text)}
    except (ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"the lineage of a changelog is damaged: {error!r}") from error


def _version(data: bytes) -> tuple[int, int]:
    """The version of a changelog, and where it goes on."""
    end = len(_VERSION_MARK) + 1
    if not data.startswith(_VERSION_MARK):
        return 1, 0
    digit = data[end - 1 : end]
    version = int(digit) if digit.isdigit() else 0
    if not 2 <= version <= _VERSION_MAX:
        raise CheckpointError(f"changelogs of version {version} are not known, only 1 to 4")
    return version, end


def _records(data: bytes, at: int, *, has_types: bool) -> Records:
    kinds = bytearray()
    places: list[tuple[int, int, int, int]] = []
    read, size = _INT.unpack_from, len(data)
    try:
        while True:
            kind = Kind.PUT
            if has_types:
                kind, at = Kind(data[at]), at + 1
                if kind is Kind.END:
                    break
            (key_size,) = read(data, at)
            key = at + _INT.size
            if key_size == _END and not has_types:
                break
            (value_size,) = read(data, key + key_size)
            value = key + key_size + _INT.size
            at = value + max(0, value_size)
            if key_size < 0 or value_size < _END or at > size:
                raise CheckpointError("a record has a wrong length: the file is damaged")
            kinds.append(Kind.DELETE if value_size == _END and kind is Kind.PUT else kind)
            places.append((key, key_size, value, max(0, value_size)))
    except (struct.error, IndexError, ValueError) as error:
        raise CheckpointError("the file ends within a record, or is damaged") from error
    found = np.array(places, dtype=np.int64).reshape(-1, 4)
    if Kind.DELETE_RANGE in kinds:
        raise CheckpointError("the file deletes ranges of keys, which cannot be followed")
    keys, key_sizes, values, value_sizes = (np.ascontiguousarray(column) for column in found.T)
    return Records(
        np.frombuffer(data, dtype=np.uint8),
        np.frombuffer(bytes(kinds), dtype=np.uint8),
        keys,
        key_sizes,
        values,
        value_sizes,
    )
