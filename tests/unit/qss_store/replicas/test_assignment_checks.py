"""Assignments that a pod refuses."""

from typing import Any

import pytest
from msgspec.structs import replace

from qss_core.errors import WrongStoreError
from qss_core.model import (
    Ordinal,
    PodAddress,
    PodName,
    StoreAssignment,
    StoreSettings,
    StoreType,
)
from qss_store.replicas.opening.assignment_checks import check_assignment
from qss_testing.pods.stores import STORE, configuration, make_definition

POD = PodAddress(
    ordinal=Ordinal(0), name=PodName("words-0"), query="http://a", changelog="http://b"
)

WINDOW = {"window_size_ms": 60_000, "retention_ms": 3_600_000}


def assignment(resource_uid: str, partitions: int = 1) -> StoreAssignment:
    return StoreAssignment(
        definition=make_definition(partitions=partitions),
        settings=StoreSettings(),
        pods=(POD,),
        partitions=tuple(configuration(number, 0) for number in range(partitions)),
        resource_uid=resource_uid,
    )


def test_an_assignment_of_a_deleted_store_of_the_same_name_is_refused() -> None:
    with pytest.raises(WrongStoreError, match="the assignment is of uid old"):
        check_assignment(assignment("old"), STORE, "new", None, has_replicas=True)


@pytest.mark.parametrize(("sent", "own"), [("a", "a"), ("a", ""), ("", "a")])
def test_an_operator_or_a_template_of_an_older_version_names_no_uid(sent: str, own: str) -> None:
    check_assignment(assignment(sent), STORE, own, None, has_replicas=True)


def test_a_volume_is_taken_over_by_the_resource_that_adopted_it() -> None:
    held = assignment("old")
    check_assignment(replace(held, resource_uid="new"), STORE, "new", held, has_replicas=True)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"value_serde": "int64"}, r"spec\.store\.value\.serde json, not int64"),
        ({"key_serde": "bytes"}, r"spec\.store\.key\.serde string, not bytes"),
        ({"type": StoreType.WINDOW, **WINDOW}, r"spec\.store\.type KeyValue, not Window"),
    ],
)
def test_a_schema_that_is_not_that_of_the_volumes_rows_is_refused(
    change: dict[str, Any], message: str
) -> None:
    held = assignment("a")
    changed = replace(held, definition=replace(held.definition, **change))
    with pytest.raises(WrongStoreError, match=message):
        check_assignment(changed, STORE, "a", held, has_replicas=True)


@pytest.mark.parametrize("change", [{"retention_ms": 7_200_000}, {"window_size_ms": 1000}])
def test_times_that_name_the_families_of_rows_stay(change: dict[str, int]) -> None:
    sent = assignment("a")
    windows = replace(sent.definition, type=StoreType.WINDOW, **WINDOW)
    held = replace(sent, definition=windows)
    with pytest.raises(WrongStoreError, match="was written with"):
        check_assignment(
            replace(held, definition=replace(windows, **change)),
            STORE,
            "a",
            held,
            has_replicas=True,
        )


def test_the_format_of_rows_may_change() -> None:
    held = assignment("a")
    moved = replace(held.definition, format="TimestampedWithHeaders")
    assert moved != held.definition
    check_assignment(replace(held, definition=moved), STORE, "a", held, has_replicas=True)


def test_a_pod_without_replicas_takes_another_schema_than_it_was_told_before() -> None:
    wrong = assignment("a")
    right = replace(wrong, definition=replace(wrong.definition, value_serde="int64"))
    check_assignment(right, STORE, "a", wrong, has_replicas=False)


@pytest.mark.parametrize("partitions", [1, 3])
def test_no_pod_takes_another_number_of_partitions(partitions: int) -> None:
    """Also a pod without replicas keeps the configurations of all partitions."""
    sent, held = assignment("a", partitions), assignment("a", 2)
    with pytest.raises(WrongStoreError, match=rf"spec\.partitions 2, not {partitions}"):
        check_assignment(sent, STORE, "a", held, has_replicas=False)
