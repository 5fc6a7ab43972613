"""The change of a store's pods from the common audience to the store's own."""

from typing import Any

import pytest

from qss_operator.kubernetes.access.audiences import PodAudiences, audiences_of, next_audiences

OWN, COMMON = "queryablestate.dev/shop/words", "queryablestate.dev"
OLDER = PodAudiences(takes=COMMON, shows=COMMON)
BOTH = PodAudiences(takes=OWN, peers=COMMON, shows=COMMON)
SHOWING = PodAudiences(takes=OWN, peers=COMMON, shows=OWN)
ALONE = PodAudiences(takes=OWN, shows=OWN)


@pytest.mark.parametrize(
    ("template", "pods", "wanted"),
    [
        (None, [], ALONE),
        (ALONE, [ALONE, ALONE, ALONE], ALONE),
        (ALONE, [], ALONE),
        (OLDER, [OLDER, OLDER, OLDER], BOTH),
        (OLDER, [], BOTH),
        (BOTH, [OLDER, BOTH], BOTH),
        (BOTH, [BOTH, BOTH], BOTH),
        (BOTH, [BOTH, BOTH, BOTH], SHOWING),
        (SHOWING, [BOTH, BOTH, SHOWING], SHOWING),
        (SHOWING, [SHOWING, SHOWING], SHOWING),
        (SHOWING, [SHOWING, SHOWING, SHOWING], ALONE),
        (ALONE, [SHOWING, SHOWING, ALONE], ALONE),
        (ALONE, [SHOWING, ALONE], ALONE),
        (ALONE, [SHOWING, ALONE, OLDER], ALONE),
        (None, [OLDER, OLDER, OLDER], BOTH),
        (None, [BOTH, BOTH, BOTH], SHOWING),
    ],
)
def test_no_step_is_begun_before_all_pods_have_made_the_last_one(
    template: PodAudiences | None, pods: list[PodAudiences], wanted: PodAudiences
) -> None:
    assert next_audiences(ALONE, template, pods, 3) == wanted


def test_a_store_without_pods_takes_its_own_at_once() -> None:
    assert next_audiences(ALONE, OLDER, [], 0) == ALONE


def test_a_pods_audiences_are_read_from_what_it_was_made_with() -> None:
    source = {"serviceAccountToken": {"audience": "b", "path": "token"}}
    volumes = [{"name": "tmp"}, {"name": "token", "projected": {"sources": [source]}}]

    def of(*arguments: str, container: str = "store") -> PodAudiences | None:
        made: dict[str, Any] = {"containers": [{"name": container, "args": list(arguments)}]}
        return audiences_of({**made, "volumes": volumes})

    given = of("--store=words", "--token-audience=a", "--peers-audience=b")
    assert given == PodAudiences(takes="a", shows="b", peers="b")
    assert of("--token-audience=a", container="sidecar") is None
    assert of("--store=words") is None
    assert audiences_of({}) is None
