"""The requests that get a place for the review of an unknown token."""

from qss_store.access.review_limits import (
    AT_ONCE_MAX,
    OF_ADDRESS_MAX,
    OF_STRANGERS_MAX,
    REFUSED_BURST,
    REFUSED_PER_S,
    ReviewPlaces,
)


def taken(places: ReviewPlaces, address: str, count: int, now: float = 0.0) -> int:
    return sum(places.take(address, now) for _ in range(count))


def test_one_address_has_some_of_the_places_and_gets_them_back() -> None:
    places = ReviewPlaces()
    assert taken(places, "a", 100) == OF_ADDRESS_MAX
    assert taken(places, "b", 100) == OF_ADDRESS_MAX
    places.give("a", 1.0, was_refused=False)
    assert taken(places, "a", 100) == 1


def test_strangers_leave_places_to_addresses_that_showed_a_good_token_lately() -> None:
    places = ReviewPlaces()
    places.welcome("good", 0.0)
    assert sum(taken(places, f"b{n}", 1) for n in range(100)) == OF_STRANGERS_MAX
    assert taken(places, "good", 100) == OF_ADDRESS_MAX
    places.welcome("also", 0.0)
    assert taken(places, "also", 100) == AT_ONCE_MAX - OF_STRANGERS_MAX - OF_ADDRESS_MAX
    places.give("good", 1.0, was_refused=False)
    assert taken(places, "good", 1, now=599.0) == 1
    places.give("good", 599.0, was_refused=False)
    assert taken(places, "good", 1, now=601.0) == 0


def test_an_address_whose_tokens_are_refused_keeps_a_pace() -> None:
    places = ReviewPlaces()
    for _ in range(REFUSED_BURST):
        assert places.take("a", 0.0)
        places.give("a", 0.0, was_refused=True)
    assert not places.take("a", 0.0)
    assert places.take("b", 0.0)
    later = 1.0 / REFUSED_PER_S
    assert places.take("a", later)
    places.give("a", later, was_refused=True)
    assert not places.take("a", later)
    assert places.take("a", 3600.0)


def test_addresses_are_forgotten_but_those_that_wait() -> None:
    places = ReviewPlaces()
    assert places.take("waits", 0.0)
    for number in range(10_000):
        assert places.take(f"b{number}", 0.0)
        places.give(f"b{number}", 0.0, was_refused=True)
    assert len(places.addresses) <= 4096
    assert taken(places, "waits", 100) == OF_ADDRESS_MAX - 1
