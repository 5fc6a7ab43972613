"""Has replicas take their part of an assignment; a replica that cannot take it fails alone."""

from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager

from qss_core.errors import DiskFullError, StaleEpochError, StoreError
from qss_core.model import PartitionConfiguration, StoreDefinition, StoreSettings
from qss_store.replicas.replica import Replica


def take_configuration(
    replica: Replica, settings: StoreSettings, configuration: PartitionConfiguration
) -> bool:
    """Gives a replica its configuration; returns whether the configuration is a new one.

    Raises StaleEpochError. Raises DiskFullError: then the whole assignment is taken later.
    """
    replica.apply_loop.settings = settings
    try:
        is_new = replica.epochs.take(configuration)
    except (StaleEpochError, DiskFullError):
        raise
    except StoreError as error:
        _fail(replica, error)
        return True
    replica.confirm()
    return is_new


@asynccontextmanager
async def taking_definition(
    replicas: Iterable[Replica], definition: StoreDefinition
) -> AsyncIterator[None]:
    """Prepares replicas for a definition; all take it at once when the block ends without an error.

    A replica that has failed, or cannot be prepared, keeps its definition: readers convert its
    rows. Raises DiskFullError before the block; then the old definition stays in force.
    """
    prepared = []
    async with AsyncExitStack() as stack:
        for replica in replicas:
            if replica.definition == definition or replica.health.has_failed:
                continue
            try:
                await stack.enter_async_context(replica.format_change.redefining(definition))
            except DiskFullError:
                raise
            except StoreError as error:
                _fail(replica, error)
            else:
                prepared.append(replica)
        yield
        for replica in prepared:
            replica.format_change.redefine(definition)


def _fail(replica: Replica, error: StoreError) -> None:
    if not replica.health.has_failed:
        replica.fail(error)
