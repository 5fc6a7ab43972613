"""Assignments that a pod refuses."""

import pytest
from msgspec.structs import replace

from qss_core.errors import WrongStoreError
from qss_core.model import Ordinal, PodAddress, PodName, StoreAssignment, StoreSettings
from qss_store.replicas.opening.assignment_checks import check_assignment
from qss_testing.pods.stores import STORE, configuration, make_definition

POD = PodAddress(
    ordinal=Ordinal(0), name=PodName("words-0"), query="http://a", changelog="http://b"
)


def assignment(resource_uid: str) -> StoreAssignment:
    return StoreAssignment(
        definition=make_definition(partitions=1),
        settings=StoreSettings(),
        pods=(POD,),
        partitions=(configuration(0, 0),),
        resource_uid=resource_uid,
    )


def test_an_assignment_of_a_deleted_store_of_the_same_name_is_refused() -> None:
    with pytest.raises(WrongStoreError, match="the assignment is of uid old"):
        check_assignment(assignment("old"), STORE, "new", None)


@pytest.mark.parametrize(("sent", "own"), [("a", "a"), ("a", ""), ("", "a")])
def test_an_operator_or_a_template_of_an_older_version_names_no_uid(sent: str, own: str) -> None:
    check_assignment(assignment(sent), STORE, own, None)


def test_a_volume_is_taken_over_by_the_resource_that_adopted_it() -> None:
    held = assignment("old")
    check_assignment(replace(held, resource_uid="new"), STORE, "new", held)
