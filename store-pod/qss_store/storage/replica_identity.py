"""The configuration, store and pod that a replica's database belongs to, in its meta family."""

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
    """The newer of the held and the wanted configuration.

    Raises CorruptionError if the database belongs to another partition, pod or store.
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
    """Whether no replica has begun in this database."""
    return engine.get(META, _CONFIGURATION) is None


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


def put_definition(batch: Batch, definition: StoreDefinition) -> None:
    batch.put(META, _DEFINITION, encode(definition))


def _encoded(pod: Ordinal) -> bytes:
    return str(pod).encode()
