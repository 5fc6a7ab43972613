"""A database knows the schema of its rows, also where the volume has lost its assignment."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from qss_core.errors import WrongStoreError
from qss_core.model import (
    Ordinal,
    PodAddress,
    PodName,
    StoreAssignment,
    StoreDefinition,
    StoreId,
    StoreSettings,
    StoreType,
)
from qss_core.wire.messages import encode
from qss_store.replicas.volume.assignment_file import read_assignment
from qss_store.replicas.volume.kept_files import Volume
from qss_testing.memory_engine import MemoryEngine
from qss_testing.pods.one_replica import started_replica
from qss_testing.pods.stores import configuration, make_definition

POD = PodAddress(
    ordinal=Ordinal(0), name=PodName("words-0"), query="http://a", changelog="http://b"
)
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


def kept_on(volume: Path, edited: StoreDefinition) -> StoreDefinition:
    """The definition of the volume's assignment, as a pod reads it, after it was edited."""
    assignment = StoreAssignment(
        definition=edited, settings=StoreSettings(), pods=(POD,), partitions=(configuration(0, 0),)
    )
    (volume / "assignment.json").write_bytes(encode(assignment))
    read = read_assignment(volume)
    assert read is not None
    return read.definition


def test_the_schema_of_the_databases_counts_before_that_of_an_edited_assignment(
    tmp_path: Path,
) -> None:
    edited = replace(WINDOWS, retention_ms=7_200_000)
    assert kept_on(tmp_path, edited) == edited
    Volume(tmp_path).keep_schema(WINDOWS)
    assert kept_on(tmp_path, edited) == WINDOWS
    values = replace(WINDOWS, type=StoreType.KEY_VALUE, window_size_ms=None, format="Headers")
    assert kept_on(tmp_path, values) == WINDOWS


@pytest.mark.parametrize("members", [{"store_id": StoreId("other")}, {"partitions": 2}])
def test_the_schema_of_another_store_or_partition_count_is_not_taken(
    tmp_path: Path, members: dict[str, object]
) -> None:
    edited = replace(WINDOWS, retention_ms=7_200_000)
    Volume(tmp_path).keep_schema(replace(WINDOWS, **members))
    assert kept_on(tmp_path, edited) == edited


@pytest.mark.parametrize("damaged", [None, b"", b"\0" * 100])
def test_only_a_schema_that_cannot_be_read_is_written_again(
    tmp_path: Path, damaged: bytes | None
) -> None:
    kept = tmp_path / "schema-of-rows.json"
    Volume(tmp_path).mend_schema(WINDOWS)
    assert not kept.exists()
    longer = replace(WINDOWS, retention_ms=7_200_000)
    kept.write_bytes(encode(longer) if damaged is None else damaged)
    Volume(tmp_path).mend_schema(WINDOWS)
    assert kept.read_bytes() == encode(longer if damaged is None else WINDOWS)
