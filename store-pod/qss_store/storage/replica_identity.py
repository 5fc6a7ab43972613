"""The configuration, store and pod that a replica's database belongs to, in its meta family.

The family also tells that a block of the database is known to be damaged, and when all rows were
last read for damage.
A database has an id of its own: another database in its place, even an empty one, has another id.
"""

import uuid
from collections.abc import Mapping

from qss_core.errors import CorruptionError
from qss_core.model import Ordinal, PartitionConfiguration, StoreDefinition
from qss_core.spec.fixed_members import check_schema
from qss_core.wire.messages import decode, encode
from qss_store.storage.engine import META, Batch, Engine


class MisplacedError(CorruptionError):
    """The files here are another replica's: the right ones are in another place, undamaged.

    `owner` is the pod that made them, where that is another pod.
    """

    def __init__(self, message: str, owner: Ordinal | None = None) -> None:
        super().__init__(message)
        self.owner = owner


_CONFIGURATION = b"configuration"
_DEFINITION = b"definition"
_ORDINAL = b"ordinal"
_DATABASE = b"database"
_DAMAGE = b"damage"
_READ_AT = b"read-at"


def newest_configuration(
    meta: Mapping[bytes, bytes],
    definition: StoreDefinition,
    wanted: PartitionConfiguration,
    pod: Ordinal,
) -> PartitionConfiguration:
    """The newer of the held and the wanted configuration.

    Raises MisplacedError if the database belongs to another partition, pod or store, and
    WrongStoreError if its rows have another schema.
    """
    made_by = meta.get(_ORDINAL, _encoded(pod))
    if made_by != _encoded(pod):
        raise MisplacedError(
            f"these files were made by pod {made_by.decode()}, not by pod {pod}: the "
            "volumes were mixed up. Give each pod its own volume again; nothing is lost",
            owner=Ordinal(int(made_by)) if made_by.isdigit() else None,
        )
    configuration = kept_configuration(meta)
    if configuration is None:
        return wanted
    held = decode(meta[_DEFINITION], StoreDefinition)
    if (held.store_id, configuration.partition) != (definition.store_id, wanted.partition):
        raise MisplacedError(
            f"these files are partition {configuration.partition} of store {held.store_id}, not "
            f"partition {wanted.partition} of {definition.store_id}: the volume was mixed up. "
            "Stop the pod, and put the files of each partition back in its own directory"
        )
    check_schema(held, definition)
    return max(configuration, wanted, key=lambda one: one.epoch)


def kept_configuration(meta: Mapping[bytes, bytes]) -> PartitionConfiguration | None:
    """The configuration that the database keeps; None where no replica has begun in it."""
    kept = meta.get(_CONFIGURATION)
    return None if kept is None else decode(kept, PartitionConfiguration)


def identity_of(engine: Engine) -> dict[bytes, bytes]:
    """The meta rows of a database that `newest_configuration` reads."""
    names = (_CONFIGURATION, _DEFINITION, _ORDINAL)
    return {name: held for name in names if (held := engine.get(META, name)) is not None}


def is_new(engine: Engine) -> bool:
    """Whether no replica has begun in this database."""
    return engine.get(META, _CONFIGURATION) is None


def database_id(engine: Engine) -> str | None:
    """The database's own id; None before its replica has begun.

    A database of an older version gets its id with its next configuration: a start writes nothing
    where nothing has changed, since the disk may be full.
    """
    held = engine.get(META, _DATABASE)
    return None if held is None else held.decode()


def is_kept(
    engine: Engine,
    definition: StoreDefinition,
    configuration: PartitionConfiguration,
    pod: Ordinal,
) -> bool:
    """Whether the engine has all three values already, so that a full disk needs no write."""
    kept = tuple(engine.get(META, name) for name in (_CONFIGURATION, _DEFINITION, _ORDINAL))
    return kept == (encode(configuration), encode(definition), _encoded(pod))


def put_configuration(batch: Batch, configuration: PartitionConfiguration, pod: Ordinal) -> None:
    """Adds the configuration and the replica's pod to a batch."""
    batch.put(META, _CONFIGURATION, encode(configuration))
    batch.put(META, _ORDINAL, _encoded(pod))


def put_database_id(batch: Batch, engine: Engine) -> None:
    """Adds an id of its own to a batch, where the database has none."""
    if database_id(engine) is None:
        batch.put(META, _DATABASE, uuid.uuid4().hex.encode())


def put_new_owner(batch: Batch, pod: Ordinal) -> None:
    """Makes this pod the owner of a copied database, under a new id; no reader saw its rows."""
    batch.put(META, _ORDINAL, _encoded(pod))
    batch.put(META, _DATABASE, uuid.uuid4().hex.encode())
    batch.delete(META, _READ_AT)


def known_damage(meta: Mapping[bytes, bytes]) -> CorruptionError | None:
    """The damage that was met in the database, or in the one that it was copied from."""
    kept = meta.get(_DAMAGE)
    return None if kept is None else CorruptionError(kept.decode())


def is_known_damaged(engine: Engine) -> bool:
    """Whether damage was met in the database, or in the one that it was copied from."""
    return engine.get(META, _DAMAGE) is not None


def put_damage(batch: Batch, error: CorruptionError | None) -> None:
    """Adds the damage to a batch, or its end."""
    if error is None:
        batch.delete(META, _DAMAGE)
    else:
        batch.put(META, _DAMAGE, error.message.encode())


def last_read_ms(meta: Mapping[bytes, bytes]) -> int | None:
    """The time of day at which the last pass over all rows ended; None where there was none."""
    kept = meta.get(_READ_AT)
    return None if kept is None else int(kept)


def put_last_read(batch: Batch, at_ms: int) -> None:
    """Adds the end of a pass over all rows to a batch."""
    batch.put(META, _READ_AT, str(at_ms).encode())


def put_definition(batch: Batch, definition: StoreDefinition) -> None:
    batch.put(META, _DEFINITION, encode(definition))


def _encoded(pod: Ordinal) -> bytes:
    return str(pod).encode()
