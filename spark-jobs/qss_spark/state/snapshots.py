"""Reads the whole state of one partition of a store, as of a committed batch.

The state is the newest snapshot at or below the batch's version, and the changes of the versions
after it. Spark deletes older files while this reads: then a file is missing, and the reader begins
anew with a newer batch.
"""

import json
import os
import re
import shutil
import tempfile
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from qss_spark.state.checkpoint import Batch, Checkpoint
from qss_spark.state.errors import CheckpointError, StateGoneError
from qss_spark.state.frames import decompress
from qss_spark.state.records import Kind, Records, records_of_changelog, records_of_delta

if TYPE_CHECKING:
    from rocksdict import Rdict

_NAME = re.compile(r"(\d+)(?:_([0-9a-zA-Z-]+))?\.(delta|changelog|snapshot|zip)")
_NO_CHANGELOGS = (
    "{directory} has snapshots and no changelogs: set "
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled=true in the query's "
    "session and start it again"
)
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
    """The bytes of all keys and values after a batch. Raises CheckpointError.

    Spark keeps the files longer than the commits that name them: under checkpoint format 2 the
    batch's own changelog has the ids of those before it.
    """
    files = _files(checkpoint, part)
    _check_changelogs(batch, part, files)
    ids = _ids(checkpoint, batch, part, files)
    base = _base(batch, files, ids)
    state = {} if base is None else _snapshot(base, batch)
    first = 1 if base is None else base.version + 1
    for version in range(first, batch.version + 1):
        file_id = ids.get(version) if batch.file_ids else ""
        _apply(state, _changes(checkpoint, batch, part, files, version, file_id))
    return state


def _ids(
    checkpoint: Checkpoint, batch: Batch, part: StorePart, files: list[_StateFile]
) -> dict[int, str]:
    """The ids in the names of the files that lead to a batch; {} under checkpoint format 1."""
    if not batch.file_ids:
        return {}
    own = _own_id(batch, part)
    newest = _found(files, batch.version, _kind(batch), own)
    earlier = {} if newest is None else _read(checkpoint, newest, batch).lineage
    return {**earlier, batch.version: own}


def changes_of(checkpoint: Checkpoint, batch: Batch, part: StorePart) -> Records:
    """The changes of one committed batch. Raises CheckpointError, and StateGoneError."""
    files = _files(checkpoint, part)
    own = _own_id(batch, part)
    return _changes(checkpoint, batch, part, files, batch.version, own)


def column_families(checkpoint: Checkpoint, part: StorePart) -> dict[str, int]:
    """The ids of a store's column families by their names; {} where it has none.

    Each snapshot of RocksDB tells them, and one is written with the first batch.
    """
    files = _files(checkpoint, part)
    zips = [one for one in files if one.kind == "zip"]
    if not zips:
        return {}
    with _opened(max(zips, key=lambda one: one.version).path) as archive:
        mapping = _metadata(archive).get("columnFamilyMapping") or {}
    return {str(name): int(number) for name, number in mapping.items()}


def _files(checkpoint: Checkpoint, part: StorePart) -> list[_StateFile]:
    directory = checkpoint.store_directory(part.operator, part.partition, part.store)
    try:
        names = os.listdir(directory)
    except OSError as error:
        raise CheckpointError(f"{directory} cannot be read: {error.strerror}") from error
    found = ((name, _NAME.fullmatch(name)) for name in names)
    return [
        _StateFile(directory / name, int(one[1]), one[2] or "", one[3])
        for name, one in found
        if one is not None
    ]


def _kind(batch: Batch) -> str:
    """The kind of the files that have changes."""
    return "changelog" if batch.is_rocksdb else "delta"


def _check_changelogs(batch: Batch, part: StorePart, files: list[_StateFile]) -> None:
    """Raises CheckpointError where Spark writes no changelogs.

    The first partition tells it: one that a repartition has added begins with a snapshot.
    """
    kinds = {one.kind for one in files}
    if batch.is_rocksdb and part.partition == 0 and "zip" in kinds and "changelog" not in kinds:
        raise CheckpointError(_NO_CHANGELOGS.format(directory=files[0].path.parent))


def _base(batch: Batch, files: list[_StateFile], ids: Mapping[int, str]) -> _StateFile | None:
    """The newest snapshot that leads to the batch; `ids` stand in the files' names."""
    kind = "zip" if batch.is_rocksdb else "snapshot"
    usable = [
        one
        for one in files
        if one.kind == kind
        and one.version <= batch.version
        and one.file_id == (ids.get(one.version) if batch.file_ids else "")
    ]
    return max(usable, key=lambda one: one.version, default=None)


def _own_id(batch: Batch, part: StorePart) -> str:
    """The id in the names of the batch's files; other ids are of attempts that died."""
    if not batch.file_ids:
        return ""
    try:
        return batch.file_ids[part.operator][part.partition][part.number]
    except (KeyError, IndexError) as error:
        raise CheckpointError(
            f"commits/{batch.number} names no file of operator {part.operator}"
        ) from error


def _found(
    files: list[_StateFile], version: int, kind: str, file_id: str | None
) -> _StateFile | None:
    wanted = (version, kind, file_id)
    return next((one for one in files if (one.version, one.kind, one.file_id) == wanted), None)


def _changes(
    checkpoint: Checkpoint,
    batch: Batch,
    part: StorePart,
    files: list[_StateFile],
    version: int,
    file_id: str | None,
) -> Records:
    found = _found(files, version, _kind(batch), file_id)
    if found is not None:
        return _read(checkpoint, found, batch)
    directory = checkpoint.store_directory(part.operator, part.partition, part.store)
    if batch.is_rocksdb and any(one.version == version and one.kind == "zip" for one in files):
        raise CheckpointError(_NO_CHANGELOGS.format(directory=directory))
    raise StateGoneError(
        f"{directory} lacks the changes of version {version}: Spark keeps only the newest batches"
    )


def _read(checkpoint: Checkpoint, file: _StateFile, batch: Batch) -> Records:
    found = read_changes(file.path, batch)
    checkpoint.read_bytes += found.size
    return found


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
            return _all_rows(database, path)
        finally:
            database.close()


def _all_rows(database: "Rdict", path: Path) -> RawState:
    """All rows. A damaged block ends an iteration, too: the last row tells it from the end."""
    pairs = cast("Iterator[tuple[bytes, bytes]]", database.items())
    state = {bytes(key): bytes(value) for key, value in pairs}
    cursor = database.iter()
    cursor.seek_to_last()
    try:
        cursor.status()
        last = bytes(cursor.key()) if cursor.valid() else None
    except Exception as error:
        raise CheckpointError(f"{path} has a damaged table file: {error}") from error
    if last != next(reversed(state), None):
        raise CheckpointError(f"{path} has a damaged table file: its rows end before the last one")
    return state


def _unpack(path: Path, target: Path) -> None:
    with _opened(path) as archive:
        metadata = _metadata(archive)
        try:
            for name in archive.namelist():
                if name != "metadata" and Path(name).name == name:
                    archive.extract(name, target)
        except (OSError, zipfile.BadZipFile, zlib.error) as error:
            raise CheckpointError(f"{path} cannot be unpacked: {error}") from error
    for here, there in _named_files(metadata, path):
        source = path.parent / here
        if Path(there).name != there:
            raise CheckpointError(f"{path} names the file {there}, which is no name")
        try:
            shutil.copyfile(source, target / there)
        except FileNotFoundError as error:
            raise StateGoneError(f"{path} names {here}, which is not there any more") from error
        except OSError as error:
            raise CheckpointError(f"{source} cannot be copied: {error.strerror}") from error


def _named_files(metadata: dict[str, Any], path: Path) -> list[tuple[str, str]]:
    """The paths of a snapshot's files, and their names in the database."""
    try:
        tables = [
            (f"SSTs/{one['dfsSstFileName']}", str(one["localFileName"]))
            for one in metadata.get("sstFiles") or ()
        ]
        logs = [
            (f"logs/{one['dfsLogFileName']}", str(one["localFileName"]))
            for one in metadata.get("logFiles") or ()
        ]
    except (KeyError, TypeError) as error:
        raise CheckpointError(f"{path} has metadata that is damaged: {error!r}") from error
    return tables + logs


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
