"""An active takes no other volume for the one of its follower."""

import re

import pytest
from msgspec.structs import replace

from qss_core.errors import NotReadyError, WrongStoreError
from qss_core.model import Epoch, Offset, Ordinal, PartitionConfiguration, PartitionId, StoreId
from qss_store.replication.digest import NO_DIGEST, LogPoint
from qss_store.replication.hello import Hello, check_hello, other_entries
from qss_store.replication.log import Log

OWN = Hello(
    store_id=StoreId("s"), partition=PartitionId(3), ordinal=Ordinal(0), database="a", reads=(1, 2)
)
POD = Ordinal(1)
GOOD = replace(OWN, ordinal=POD, database="b")


@pytest.mark.parametrize("known", [None, "b"])
def test_the_replica_of_the_pod_is_taken(known: str | None) -> None:
    check_hello(OWN, GOOD, POD, known)


def test_a_replica_that_has_not_begun_is_taken() -> None:
    check_hello(OWN, replace(GOOD, database=None), POD)


@pytest.mark.parametrize(
    ("other", "known", "message"),
    [
        (replace(GOOD, store_id="t"), None, "partition 3 of store id t"),
        (replace(GOOD, partition=4), None, "partition 4 of store id s"),
        (replace(GOOD, ordinal=2), None, "volume of pod 2 answers at the address of pod 1"),
        (GOOD, "c", "another database"),
        (replace(GOOD, database=None), "b", "another database"),
    ],
)
def test_another_volume_is_refused(other: Hello, known: str | None, message: str) -> None:
    with pytest.raises(WrongStoreError, match=message):
        check_hello(OWN, other, POD, known)


@pytest.mark.parametrize("reads", [(), (1,), (1, 3)])
def test_a_pod_that_cannot_read_the_entries_is_not_in_sync(reads: tuple[int, ...]) -> None:
    with pytest.raises(NotReadyError, match="upgrade pod 1"):
        check_hello(OWN, replace(GOOD, reads=reads), POD)


@pytest.mark.parametrize(
    ("offset", "message"),
    [
        (9, "has entries up to 9, .* the volume went back to an older state"),
        (5, "or is of before a loss that was accepted.* empty it and restart pod 1"),
    ],
)
def test_other_entries_of_a_standby_are_told_with_the_volume_to_look_at(
    offset: int, message: str
) -> None:
    held = PartitionConfiguration(
        partition=PartitionId(3),
        epoch=Epoch(2),
        active=OWN.ordinal,
        in_sync=(OWN.ordinal, POD),
        replicas=(OWN.ordinal, POD),
    )
    log = Log(pod=OWN.ordinal, configuration=held, end=Offset(7))
    error = other_entries(log, POD, LogPoint(Offset(offset), Epoch(1), NO_DIGEST))
    assert re.search(f"partition 3 ends at entry 7.*{message}", error.message)
