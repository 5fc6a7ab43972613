"""Reads the logs of a Spark checkpoint: which batches are committed, and how their state is kept.

`commits/N` is the only proof that batch N is over: its state is written before, and again where the
driver died in between. The settings of a batch stand in the second line of `offsets/N`. State is
read from a directory of this machine.
"""

import hashlib
import json
import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from qss_spark.state.errors import CheckpointError, StateGoneError
from qss_spark.state.frames import LZ4

_SETTING = "spark.sql.streaming.stateStore."
_URL = re.compile("([a-z][a-z0-9+.-]*):/")
_LOGS = ("commits", "offsets")


@dataclass(frozen=True, slots=True)
class Batch:
    """A committed batch: how its state is kept."""

    number: int
    is_rocksdb: bool
    codec: str
    encoding: str
    has_checksums: bool
    partitions: int
    # By operator: the ids in the names of its files, for each partition and store; {} without.
    file_ids: dict[int, list[list[str]]] = field(default_factory=dict)

    @property
    def version(self) -> int:
        """The version of the state after the batch."""
        return self.number + 1


@dataclass(frozen=True, slots=True)
class StoreInfo:
    """A state store of an operator, as its metadata has it."""

    name: str
    prefix_columns: int


@dataclass(frozen=True, slots=True)
class Operator:
    """A stateful operator of a query."""

    number: int
    name: str
    stores: tuple[StoreInfo, ...]
    properties: dict[str, Any]


def local_directory(given: str | Path) -> Path:
    """The directory of this machine that a path or a URL names. Raises CheckpointError."""
    found = _URL.match(str(given))
    if found is None:
        return Path(given)
    if found[1] != "file":
        raise CheckpointError(
            f"{given} is not in a directory of this machine, and checkpoints in object stores are "
            "not read: let the query keep its checkpoint on a volume, and give the directory"
        )
    return Path("/" + str(given)[found.end() :].lstrip("/"))


class Checkpoint:
    """The checkpoint of one query."""

    def __init__(self, path: Path) -> None:
        """Raises CheckpointError where the directory is no checkpoint."""
        self.path = path
        self.read_bytes = 0  # Of the files with changes that were read so far.
        if not path.is_dir():
            raise CheckpointError(f"{path} is no directory")
        if missing := [name for name in _LOGS if not (path / name).is_dir()]:
            lacks = " and no ".join(missing)
            raise CheckpointError(
                f"{path} is no checkpoint of a streaming query: it has no {lacks}"
            )

    def newest(self) -> int:
        """The newest committed batch. Raises CheckpointError where none is committed."""
        try:
            names = os.listdir(self.path / "commits")
        except OSError as error:
            raise CheckpointError(
                f"{self.path} cannot be read any more: {error.strerror}"
            ) from error
        batches = [int(name) for name in names if name.isdigit()]
        if not batches:
            raise CheckpointError(f"no batch of {self.path} is committed yet")
        return max(batches)

    @property
    def query_id(self) -> str:
        """Spark's id of the query. Raises CheckpointError."""
        try:
            return str(json.loads(_read(self.path / "metadata"))["id"])
        except (ValueError, KeyError, TypeError) as error:
            raise CheckpointError(f"{self.path / 'metadata'} has no id of the query") from error

    def is_committed(self, number: int) -> bool:
        """Whether a batch is over, and Spark still knows it."""
        return (self.path / "commits" / str(number)).exists()

    def committed_ms(self, number: int) -> int | None:
        """The time of a batch's commit, in milliseconds since 1970; None where it is not there."""
        try:
            return (self.path / "commits" / str(number)).stat().st_mtime_ns // 1_000_000
        except OSError:
            return None

    def offsets(self, number: int) -> bytes:
        """The entry of a batch in the offset log. Raises StateGoneError."""
        return _read(self.path / "offsets" / str(number))

    def identity(self, number: int) -> str:
        """A digest that no other committed batch has, as hex. Raises StateGoneError.

        Its inputs do not tell it from a batch that ran again after the checkpoint was restored: a
        query may give other rows for the same inputs. The commit is another file then.
        """
        commit = self.path / "commits" / str(number)
        try:
            written_ns = commit.stat().st_mtime_ns
        except OSError as error:
            raise StateGoneError(f"{commit} is not there") from error
        found = hashlib.sha256(self.offsets(number))
        found.update(b"%d " % written_ns)
        found.update(_read(commit))
        return found.hexdigest()

    def batch(self, number: int) -> Batch:
        """A committed batch. Raises CheckpointError where it is not there, or of another form."""
        settings = self._settings(number)
        commit = self._lines("commits", number)
        provider = settings.get(f"{_SETTING}providerClass", "")
        partitions = settings.get("spark.sql.shuffle.partitions", "")
        if not str(partitions).isdigit():
            raise CheckpointError(
                f"offsets/{number} does not say how many partitions the state has"
            )
        return Batch(
            number=number,
            is_rocksdb=provider.rpartition(".")[2] == "RocksDBStateStoreProvider",
            codec=settings.get(f"{_SETTING}compression.codec", LZ4),
            encoding=settings.get(f"{_SETTING}encodingFormat", "unsaferow"),
            has_checksums=settings.get(f"{_SETTING}rowChecksum.enabled", "false") == "true",
            partitions=int(partitions),
            file_ids=_file_ids(commit),
        )

    def operators(self) -> tuple[Operator, ...]:
        """The stateful operators, by their numbers; none where the query keeps no state."""
        state = self.path / "state"
        if not state.is_dir():
            return ()
        numbers = sorted(int(one.name) for one in state.iterdir() if one.name.isdigit())
        return tuple(self._operator(number) for number in numbers)

    def _operator(self, number: int) -> Operator:
        folder = self.path / "state" / str(number) / "_metadata"
        file = folder / "metadata"
        if not file.exists():
            newer = folder / "v2"
            batches = [int(one.name) for one in newer.glob("*") if one.name.isdigit()]
            if not batches:
                raise CheckpointError(f"the state of operator {number} has no metadata")
            file = newer / str(max(batches))
        try:
            document = json.loads(_read(file).split(b"\n", 1)[1])
            properties = document.get("operatorPropertiesJson") or "{}"
            return Operator(
                number=number,
                name=str(document["operatorInfo"]["operatorName"]),
                stores=tuple(
                    StoreInfo(str(one["storeName"]), int(one.get("numColsPrefixKey", 0)))
                    for one in document["stateStoreInfo"]
                ),
                properties=json.loads(properties) if isinstance(properties, str) else properties,
            )
        except (ValueError, KeyError, IndexError, TypeError) as error:
            raise CheckpointError(f"{file} is damaged: {error!r}") from error

    def store_directory(self, operator: int, partition: int, store: str) -> Path:
        """The directory of the files of one partition of a store."""
        found = self.path / "state" / str(operator) / str(partition)
        return found if store == "default" else found / store

    def _settings(self, number: int) -> dict[str, Any]:
        lines = self._lines("offsets", number)
        try:
            settings = json.loads(lines[1])["conf"]
        except (ValueError, KeyError, IndexError, TypeError) as error:
            raise CheckpointError(f"offsets/{number} has no settings of the query") from error
        if not isinstance(settings, dict):
            raise CheckpointError(f"offsets/{number} has no settings of the query")
        return settings

    def _lines(self, log: str, number: int) -> list[bytes]:
        lines = _read(self.path / log / str(number)).split(b"\n")
        if lines[0] not in (b"v1", b"v2"):
            raise CheckpointError(f"{log}/{number} has a form that is not known")
        return lines


def _file_ids(commit: list[bytes]) -> dict[int, list[list[str]]]:
    """The ids of the files under checkpoint format 2; {} under format 1."""
    try:
        document = json.loads(commit[1]) if len(commit) > 1 else {}
        held = document.get("stateUniqueIds") or {}
        return {int(operator): list(ids) for operator, ids in held.items()}
    except (ValueError, AttributeError, TypeError) as error:
        raise CheckpointError(f"a commit is damaged: {error!r}") from error


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except FileNotFoundError as error:
        raise StateGoneError(f"{file} is not there: Spark keeps only the newest batches") from error
    except OSError as error:
        raise CheckpointError(f"{file} cannot be read: {error.strerror}") from error
