"""What a replica's database says of itself: whose rows these are, and who serves them."""

from collections.abc import Mapping

from qss_core.errors import CorruptionError
from qss_core.model import PartitionConfiguration, StoreDefinition
from qss_core.wire import decode, encode
from qss_store.engine.base import META, Batch, Engine

_CONFIGURATION = b"configuration"
_DEFINITION = b"definition"


def newest_configuration(
    meta: Mapping[bytes, bytes], definition: StoreDefinition, wanted: PartitionConfiguration
) -> PartitionConfiguration:
    """The configuration that is held, or the one that is wanted where that is newer.

    Raises CorruptionError where the database is of another partition, or of another store.
    """
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
    engine: Engine, definition: StoreDefinition, configuration: PartitionConfiguration
) -> bool:
    """Whether the engine has both: a full disk can be opened and read."""
    kept = (engine.get(META, _CONFIGURATION), engine.get(META, _DEFINITION))
    return kept == (encode(configuration), encode(definition))


def put_configuration(batch: Batch, configuration: PartitionConfiguration) -> None:
    """Adds the configuration to a batch."""
    batch.put(META, _CONFIGURATION, encode(configuration))


def put_definition(batch: Batch, definition: StoreDefinition) -> None:
    """Adds the definition to a batch."""
    batch.put(META, _DEFINITION, encode(definition))
