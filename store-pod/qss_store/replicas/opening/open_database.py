"""Opens a partition's database, and refuses a database that holds less than was synced.

Without this check the pod would serve an empty or shortened database as if it were the data.
"""

import logging
import re
import shutil
from collections.abc import Awaitable, Callable, Mapping
from itertools import count
from pathlib import Path
from typing import Protocol

from qss_core.errors import CorruptionError, DiskFullError
from qss_core.model import (
    Offset,
    Ordinal,
    PartitionConfiguration,
    PartitionId,
    StoreDefinition,
)
from qss_core.spec.fixed_members import OtherSchemaError
from qss_store.replicas.opening.mixed_volumes import misplaced_in, missing_here
from qss_store.replicas.peers.unlike_alarm import forget_alarm
from qss_store.replicas.pod_context import PodContext
from qss_store.replicas.replica import Replica
from qss_store.replicas.volume.kept_files import SyncMark, Volume
from qss_store.runtime.blocking import run_blocking
from qss_store.storage.database_files import (
    ShortLogError,
    check_log,
    make_directory,
    sync_directory,
    translated_os_error,
)
from qss_store.storage.engine import Engine, SyncedFiles, shortage_of
from qss_store.storage.replica_identity import (
    MisplacedError,
    identity_of,
    is_known_damaged,
    is_new,
    kept_configuration,
    put_configuration,
    put_new_owner,
)

_LOG = logging.getLogger(__name__)
_GIVING_UP = "loss-being-accepted"
_MADE_FIRST = re.compile("LOG|LOCK$|IDENTITY$")  # RocksDB makes them before it has a database.


class OpenEngine(Protocol):
    """Opens the engine of one replica."""

    def __call__(self, path: Path) -> Engine:
        """The engine of the files under `path`; creates the files where they are missing."""


class Opening:
    """Opens the databases of one volume."""

    def __init__(
        self,
        volume: Volume,
        open_engine: OpenEngine,
        salvage_engine: OpenEngine | None,
        free_databases: Callable[[], object],
    ) -> None:
        """Set `marks` before you open a partition that was here before.

        `salvage_engine` opens a database up to the first damage of its write-ahead log. Call
        `free_databases` before the files of a closed database are moved or deleted.
        """
        self.free_databases = free_databases
        self.marks: Mapping[PartitionId, SyncMark] = {}
        self._volume = volume
        self._open_engine = open_engine
        self._salvage_engine = salvage_engine
        self._salvaged: PartitionId | None = None

    async def salvage(
        self,
        partition: PartitionId,
        opened: Callable[[], Awaitable[Replica]],
        take: Callable[[Replica], Awaitable[None]],
        *,
        is_unwritable: bool,
    ) -> Replica:
        """Opens a lost partition with the data that is left; `opened` calls `open`.

        The write-ahead log is read up to its damage. If the database does not open, or if `take`
        fails, or if the database `is_unwritable`, its files are put aside, and an empty database
        takes their place. The partition is lost until this method has returned.
        """
        self._salvaged = partition
        try:
            if is_unwritable and not self._giving_up(partition).exists():
                self.free_databases()
                self._put_aside(partition, "it takes no writes any more")
                replica = await _taken(opened, take)
            else:
                replica = await self._salvage(partition, opened, take)
        finally:
            self._salvaged = None
        # The replica's new database may take batches, also on the volume of another pod.
        self._volume.keep_owner(replica.log.pod, is_sure=True)
        return replica

    def has_files(self, partition: PartitionId) -> bool:
        """Whether a database was made here, also by a pod that kept no assignment."""
        path = self._volume.database(partition)
        try:
            return path.is_dir() and any(not _MADE_FIRST.match(one.name) for one in path.iterdir())
        except OSError:
            return False  # The opening fails, too, with the reason.

    def forget(self, partition: PartitionId) -> None:
        """Forgets the mark of a partition whose database is replaced or deleted."""
        self.marks = {number: mark for number, mark in self.marks.items() if number != partition}

    def has_gone_on(self, partition: PartitionId) -> None:
        """Ends a salvage: the data on the volume counts. Call it after the new mark is kept."""
        self.forget(partition)
        self._giving_up(partition).unlink(missing_ok=True)
        sync_directory(self._volume.database(partition))

    def _giving_up(self, partition: PartitionId) -> Path:
        """The file that marks a database whose loss is being accepted, beside its files.

        Files that a person brings back do not have it.
        """
        return self._volume.database(partition) / _GIVING_UP

    async def _salvage(
        self,
        partition: PartitionId,
        opened: Callable[[], Awaitable[Replica]],
        take: Callable[[Replica], Awaitable[None]],
    ) -> Replica:
        try:
            return await _taken(opened, take)
        except CorruptionError as error:
            why = error.message
        self.free_databases()
        self._put_aside(partition, why)
        return await _taken(opened, take)

    async def start(
        self,
        definition: StoreDefinition,
        configuration: PartitionConfiguration,
        context: PodContext,
        *,
        was_here: bool,
    ) -> Replica:
        """Opens and starts a partition's replica.

        Raises as `open`, CorruptionError where the database holds less than was synced, and
        DiskFullError where a full volume keeps a new replica from being begun: the next start would
        take its empty database for one that lost its rows. The volume keeps the schema of a
        database that refuses its definition, and the number of the pod that its databases are of.
        """
        try:
            replica, begins = await self._loaded(
                definition, configuration, context, was_here=was_here
            )
        except OtherSchemaError as error:
            self._volume.keep_schema(error.kept)
            raise
        except MisplacedError as error:
            if error.owner is not None:
                self._volume.keep_owner(error.owner, is_sure=False)
            raise
        self._volume.keep_owner(context.pod, is_sure=not begins)
        if not begins:
            self._volume.mend_schema(definition)
        try:
            if was_here:
                await self.check(replica)
            await replica.start()
            if begins:
                _check_has_room(replica)
        except BaseException:
            await replica.close()
            raise
        return replica

    async def _loaded(
        self,
        definition: StoreDefinition,
        configuration: PartitionConfiguration,
        context: PodContext,
        *,
        was_here: bool,
    ) -> tuple[Replica, bool]:
        """A replica that is not started, and whether it begins in a new database."""
        try:
            engine = await self.open(configuration.partition, was_here=was_here)
        except ShortLogError as error:
            # Files of another replica fit no mark, and their rows are whole in another place.
            path = self._volume.database(configuration.partition)
            looked_at = (path, self._open_engine, definition, configuration, context.pod)
            misplaced = await run_blocking(misplaced_in, *looked_at)
            raise misplaced or error from error
        try:
            return Replica(definition, configuration, engine, context), is_new(engine)
        except BaseException:
            engine.close()
            raise

    async def install(
        self, configuration: PartitionConfiguration, copied: Path, pod: Ordinal, *, is_damaged: bool
    ) -> None:
        """Puts a copied database in the place of a partition's own; the own one is closed.

        The copy has this configuration from the first moment, where its own one is older: this pod
        may have answered in that epoch.
        Files that were damaged, or whose copy is damaged, are put aside, once; others are deleted.
        Raises as `open`.
        """
        try:
            is_damaged |= await run_blocking(
                _take_over, self._open_engine, copied, configuration, pod
            )
            self.free_databases()
            path = self._volume.database(configuration.partition)
            if is_damaged and not path.with_name(f"{path.name}.damaged-1").exists():
                self._put_aside(configuration.partition, "it is copied from the partition's active")
            await run_blocking(_replace_directory, path, copied)
        except OSError as error:
            raise translated_os_error(error) from error
        except (RuntimeError, MemoryError) as error:
            raise shortage_of(error) or error from error

    async def open(self, partition: PartitionId, *, was_here: bool) -> Engine:
        """Opens the partition's database off the event loop; creates it unless it `was_here`.

        Raises CorruptionError where the database is damaged, or `was_here` and is gone. Raises
        DiskFullError and other StoreErrors where it may open later.
        """
        try:
            return await self._open(partition, was_here=was_here)
        except OSError as error:
            raise translated_os_error(error) from error
        except (RuntimeError, MemoryError) as error:
            raise shortage_of(error) or error from error

    async def _open(self, partition: PartitionId, *, was_here: bool) -> Engine:
        path = self._volume.database(partition)
        mark = self.marks.get(partition) if was_here else None
        existed = path.exists()
        is_salvaged = partition == self._salvaged
        if is_salvaged:
            make_directory(path)
            self._giving_up(partition).touch()
            sync_directory(path)
        elif self._giving_up(partition).exists():
            raise CorruptionError(
                "its loss was accepted, and the pod ended before the partition was opened: accept "
                "the loss again"
            )
        if existed and mark is not None and mark.files is not None:
            check_log(path, mark.files)
        open_engine = self._salvage_engine if is_salvaged else self._open_engine
        engine = await run_blocking(open_engine or self._open_engine, path)
        try:
            if was_here:
                self._check_begun(engine, partition)
        except BaseException:
            engine.close()
            if not existed:  # Leave no files where a person may bring the database back.
                shutil.rmtree(path, ignore_errors=True)
            raise
        return engine

    def _check_begun(self, engine: Engine, partition: PartitionId) -> None:
        if is_new(engine):
            raise missing_here(self._volume, partition)

    def _put_aside(self, partition: PartitionId, why: str) -> None:
        """Renames the directory of a database that cannot be used; its files stay."""
        path = self._volume.database(partition)
        aside = next(
            name
            for number in count(1)
            if not (name := path.with_name(f"{path.name}.damaged-{number}")).exists()
        )
        _LOG.error("the files of partition %s are put aside as %s: %s", partition, aside.name, why)
        if path.exists():
            path.rename(aside)

    async def check(self, replica: Replica) -> None:
        """Raises CorruptionError where a database holds less than its sync mark says."""
        mark = self.marks.get(replica.partition)
        if mark is None:
            return
        if mark.files is not None:
            await run_blocking(_check_writes, replica.engine, mark.files)
        last = Offset(mark.end - 1)
        if replica.log.end < mark.end:
            raise CorruptionError(
                f"the changelog ends at entry {replica.log.end - 1}, but entry {last} was synced: "
                "these files are older than the data; bring the newer files back"
            )
        found = None if mark.digest is None else replica.changelog.digest(last)
        if found is not None and found != mark.digest:
            raise CorruptionError(
                f"entry {last} of the changelog is not the entry that was synced: these files are "
                "not those of the data; bring the right files back"
            )


def _check_has_room(replica: Replica) -> None:
    if isinstance(replica.failure, DiskFullError):
        raise replica.failure


async def _taken(
    opened: Callable[[], Awaitable[Replica]], take: Callable[[Replica], Awaitable[None]]
) -> Replica:
    replica = await opened()
    try:
        await take(replica)
    except BaseException:
        await replica.close()
        raise
    return replica


def _take_over(
    open_engine: OpenEngine, path: Path, configuration: PartitionConfiguration, pod: Ordinal
) -> bool:
    """Makes this pod the owner of a copy; returns whether the source is known to be damaged."""
    engine = open_engine(path)
    try:
        batch = engine.batch()
        kept = kept_configuration(identity_of(engine))
        if kept is not None and kept.epoch < configuration.epoch:
            put_configuration(batch, configuration, pod)
        put_new_owner(batch, pod)
        forget_alarm(batch)
        engine.write(batch)
        engine.sync()
        return is_known_damaged(engine)
    finally:
        engine.close()


def _replace_directory(path: Path, new: Path) -> None:
    shutil.rmtree(path, ignore_errors=True)
    make_directory(path.parent)
    new.rename(path)
    sync_directory(path.parent)


def _check_writes(engine: Engine, synced: SyncedFiles) -> None:
    found = engine.mark()
    if found is not None and found.writes < synced.writes:
        raise CorruptionError(
            f"the database holds {found.writes} writes, but {synced.writes} were synced: its "
            "write-ahead log lost its end; bring the whole files back"
        )
