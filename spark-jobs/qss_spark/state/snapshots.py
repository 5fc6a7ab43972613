"""Reads the whole state of one partition of a store, as of a committed batch.

The state is the newest snapshot at or below the batch's version, and the changes of the versions
after it. Spark deletes older files while this reads: then a file is missing, and the reader begins
anew with a newer batch.
"""

import json
import re
import shutil
import tempfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from qss_spark.state.checkpoint import Batch, Checkpoint
from qss_spark.state.errors import CheckpointError, StateGoneError
from qss_spark.state.frames import decompress
from qss_spark.state.records import Kind, Records, records_of_changelog, records_of_delta

_NAME = re.compile(r"(\d+)(?:_([0-9a-zA-Z-]+))?\.(delta|changelog|snapshot|zip)")
RawState = dict[bytes, bytes]


@dataclass(frozen=True, slots=True)
class _StateFile:
    path: Path
    version: int
    file_id: str  # "" under checkpoint format 1.
    kind: str


@dataclass(frozen=True, slots=True)
class StorePart:
    """One partition of a store of an operator."""

    operator: int
    partition: int
    store: str
    number: int  # The place of the store among those of its operator.


def raw_state(checkpoint: Checkpoint, batch: Batch, part: StorePart) -> RawState:
    """The bytes of all keys and values after a batch. Raises CheckpointError."""
    files = _files(checkpoint.store_directory(part.operator, part.partition, part.store))
    base = _base(checkpoint, batch, part, files)
    state = {} if base is None else _snapshot(base, batch)
    first = 1 if base is None else base.version + 1
    for version in range(first, batch.version + 1):
        _apply(state, _changes(checkpoint, batch, part, files, version))
    return state


def changes_of(checkpoint: Checkpoint, batch: Batch, part: StorePart) -> Records:
    """What one committed batch changed. Raises CheckpointError, and StateGoneError."""
    files = _files(checkpoint.store_directory(part.operator, part.partition, part.store))
    return _changes(checkpoint, batch, part, files, batch.version)


def column_families(checkpoint: Checkpoint, part: StorePart) -> dict[str, int]:
    """The ids of a store's column families by their names; {} where it has none.

    Each snapshot of RocksDB tells them, and one is written with the first batch.
    """
    files = _files(checkpoint.store_directory(part.operator, part.partition, part.store))
    zips = [one for one in files if one.kind == "zip"]
    if not zips:
        return {}
    with _opened(max(zips, key=lambda one: one.version).path) as archive:
        mapping = _metadata(archive).get("columnFamilyMapping") or {}
    return {str(name): int(number) for name, number in mapping.items()}


def _files(directory: Path) -> list[_StateFile]:
    try:
        names = [one.name for one in directory.iterdir()]
    except OSError as error:
        raise CheckpointError(f"{directory} cannot be read: {error.strerror}") from error
    found = ((name, _NAME.fullmatch(name)) for name in names)
    return [
        _StateFile(directory / name, int(one[1]), one[2] or "", one[3])
        for name, one in found
        if one is not None
    ]


def _base(
    checkpoint: Checkpoint, batch: Batch, part: StorePart, files: list[_StateFile]
) -> _StateFile | None:
    kind = "zip" if batch.is_rocksdb else "snapshot"
    usable = (one for one in files if one.kind == kind and one.version <= batch.version)
    for one in sorted(usable, key=lambda one: -one.version):
        if one.file_id == _file_id(checkpoint, batch, part, one.version):
            return one
    return None


def _file_id(checkpoint: Checkpoint, batch: Batch, part: StorePart, version: int) -> str:
    """The id in the name of a version's files: other ids are of attempts that died."""
    if not batch.file_ids:
        return ""
    of = batch if version == batch.version else checkpoint.batch(version - 1)
    try:
        return of.file_ids[part.operator][part.partition][part.number]
    except (KeyError, IndexError) as error:
        raise CheckpointError(
            f"commits/{of.number} names no file of operator {part.operator}"
        ) from error


def _changes(
    checkpoint: Checkpoint, batch: Batch, part: StorePart, files: list[_StateFile], version: int
) -> Records:
    kind = "changelog" if batch.is_rocksdb else "delta"
    file_id = _file_id(checkpoint, batch, part, version)
    for one in files:
        if (one.version, one.kind, one.file_id) == (version, kind, file_id):
            found = read_changes(one.path, batch)
            checkpoint.read_bytes += found.size
            return found
    directory = checkpoint.store_directory(part.operator, part.partition, part.store)
    if batch.is_rocksdb and any(one.version == version and one.kind == "zip" for one in files):
        raise CheckpointError(
            f"{directory} has snapshots and no changelogs: set "
            "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled=true in the "
            "query's session and start it again"
        )
    raise StateGoneError(
        f"{directory} lacks the changes of version {version}: Spark keeps only the newest batches"
    )


def read_changes(path: Path, batch: Batch) -> Records:
    """The records of a delta or a changelog."""
    try:
        data = path.read_bytes()
    except FileNotFoundError as error:
        raise StateGoneError(f"{path} is not there any more") from error
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error.strerror}") from error
    try:
        raw = decompress(data, batch.codec)
        found = records_of_changelog(raw) if batch.is_rocksdb else records_of_delta(raw)
        return replace(found, size=len(data))
    except CheckpointError as error:
        raise CheckpointError(f"{path}: {error.message}") from error


def _apply(state: RawState, changes: Records) -> None:
    """Applies records in their order: the last one of a key wins."""
    data = changes.data.tobytes()
    columns = (changes.kinds, changes.keys, changes.key_sizes, changes.values, changes.value_sizes)
    for kind, key_at, key_size, at, size in zip(
        *(column.tolist() for column in columns), strict=True
    ):
        key, value = data[key_at : key_at + key_size], data[at : at + size]
        if kind == Kind.DELETE:
            state.pop(key, None)
        elif kind == Kind.MERGE:
            state[key] = state.get(key, b"") + value
        else:
            state[key] = value


# --- Snapshots


def _snapshot(file: _StateFile, batch: Batch) -> RawState:
    if batch.is_rocksdb:
        return _rocksdb_state(file.path)
    state: RawState = {}
    _apply(state, read_changes(file.path, batch))
    return state


def _rocksdb_state(path: Path) -> RawState:
    """The keys and values of a snapshot of RocksDB: a zip, and the table files that it names."""
    from rocksdict import AccessType, Options, Rdict

    with tempfile.TemporaryDirectory(prefix="qss-state-") as directory:
        _unpack(path, Path(directory))
        try:
            database = Rdict(directory, Options(raw_mode=True), access_type=AccessType.read_only())
        except Exception as error:
            raise CheckpointError(f"{path} is no database that opens: {error}") from error
        try:
            pairs = cast("Iterator[tuple[bytes, bytes]]", database.items())
            return {bytes(key): bytes(value) for key, value in pairs}
        finally:
            database.close()


def _unpack(path: Path, target: Path) -> None:
    with _opened(path) as archive:
        metadata = _metadata(archive)
        for name in archive.namelist():
            if name != "metadata" and Path(name).name == name:
                archive.extract(name, target)
    for here, there in _named_files(metadata):
        source = path.parent / here
        if Path(there).name != there:
            raise CheckpointError(f"{path} names the file {there}, which is no name")
        try:
            shutil.copyfile(source, target / there)
        except FileNotFoundError as error:
            raise StateGoneError(f"{path} names {here}, which is not there any more") from error
        except OSError as error:
            raise CheckpointError(f"{source} cannot be copied: {error.strerror}") from error


def _named_files(metadata: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for one in metadata.get("sstFiles") or ():
        yield f"SSTs/{one['dfsSstFileName']}", str(one["localFileName"])
    for one in metadata.get("logFiles") or ():
        yield f"logs/{one['dfsLogFileName']}", str(one["localFileName"])


def _opened(path: Path) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(path)
    except FileNotFoundError as error:
        raise StateGoneError(f"{path} is not there any more") from error
    except (OSError, zipfile.BadZipFile) as error:
        raise CheckpointError(f"{path} cannot be read: {error}") from error


def _metadata(archive: zipfile.ZipFile) -> dict[str, Any]:
    try:
        found = json.loads(archive.read("metadata").split(b"\n", 1)[1])
    except (KeyError, IndexError, ValueError, zipfile.BadZipFile) as error:
        raise CheckpointError(f"{archive.filename} has no metadata that can be read") from error
    if not isinstance(found, dict):
        raise CheckpointError(f"{archive.filename} has no metadata that can be read")
    return found
