"""A database knows the schema of its rows, also where the volume has lost its assignment."""

import pytest
from msgspec.structs import replace

from qss_core.errors import WrongStoreError
from qss_core.model import StoreType
from qss_store.storage.memory_engine import MemoryEngine
from qss_testing.pods.one_replica import started_replica
from qss_testing.pods.stores import make_definition

WINDOWS = replace(
    make_definition(partitions=1),
    type=StoreType.WINDOW,
    window_size_ms=60_000,
    retention_ms=3_600_000,
)


async def test_rows_are_not_opened_with_another_retention() -> None:
    engine = MemoryEngine()
    async with started_replica(engine, definition=WINDOWS):
        pass
    longer = replace(WINDOWS, retention_ms=7_200_000)
    with pytest.raises(WrongStoreError, match=r"window\.retention 1 h, not 2 h"):
        async with started_replica(engine, definition=longer):
            pytest.fail("it was opened")
    async with started_replica(engine, definition=WINDOWS) as replica:
        assert replica.view is not None


async def test_rows_are_opened_with_another_format() -> None:
    engine = MemoryEngine()
    definition = make_definition(partitions=1)
    async with started_replica(engine, definition=definition):
        pass
    plain = replace(definition, format="Plain")
    async with started_replica(engine, definition=plain) as replica:
        assert replica.definition.format == "Plain"
