"""What a replica's database says of itself: whose rows these are, and who serves them."""

from collections.abc import Mapping

from qss_core.errors import CorruptionError
from qss_core.model import Ordinal, PartitionConfiguration, StoreDefinition
from qss_core.wire.messages import decode, encode
from qss_store.storage.engine import META, Batch, Engine

_CONFIGURATION = b"configuration"
_DEFINITION = b"definition"
_ORDINAL = b"ordinal"


def newest_configuration(
    meta: Mapping[bytes, bytes],
    definition: StoreDefinition,
    wanted: PartitionConfiguration,
    pod: Ordinal,
) -> PartitionConfiguration:
    """The configuration that is held, or the one that is wanted where that is newer.

    Raises CorruptionError where the database is of another partition, pod or store.
    """
    if meta.get(_ORDINAL, _encoded(pod)) != _encoded(pod):
        raise CorruptionError(
            f"these files were made by pod {meta[_ORDINAL].decode()}, not by pod {pod}: the "
            "volume was mixed up"
        )
    if _CONFIGURATION not in meta:
        return wanted
    configuration = decode(meta[_CONFIGURATION], PartitionConfiguration)
    held = decode(meta[_DEFINITION], StoreDefinition)
    if (held.store_id, configuration.partition) != (definition.store_id, wanted.partition):
        raise CorruptionError(
            f"these files are partition {configuration.partition} of store {held.store_id}, not "
            f"partition {wanted.partition} of {definition.store_id}: the volume was mixed up"
        )
    return max(configuration, wanted, key=lambda one: one.epoch)


def is_new(engine: Engine) -> bool:
    """Whether no replica has ever begun in this database."""
    return engine.get(META, _CONFIGURATION) is None


def is_kept(
    engine: Engine,
    definition: StoreDefinition,
    configuration: PartitionConfiguration,
    pod: Ordinal,
) -> bool:
    """Whether the engine has all of it: a full disk can be opened and read."""
    kept = tuple(engine.get(META, name) for name in (_CONFIGURATION, _DEFINITION, _ORDINAL))
    return kept == (encode(configuration), encode(definition), _encoded(pod))


def put_configuration(batch: Batch, configuration: PartitionConfiguration, pod: Ordinal) -> None:
    """Adds the configuration, and the pod whose replica this is, to a batch."""
    batch.put(META, _CONFIGURATION, encode(configuration))
    batch.put(META, _ORDINAL, _encoded(pod))


def put_definition(batch: Batch, definition: StoreDefinition) -> None:
    """Adds the definition to a batch."""
    batch.put(META, _DEFINITION, encode(definition))


def _encoded(pod: Ordinal) -> bytes:
    return str(pod).encode()
