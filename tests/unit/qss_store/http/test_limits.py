"""The limits of a listener: which connections get a place, and which are closed."""

from dataclasses import dataclass, field

from qss_store.http.connection.limits import ConnectionPlaces


@dataclass(eq=False)
class Client:
    address: str = "a"
    is_waiting: bool = True
    dropped: list["Client"] = field(default_factory=list)

    def drop(self) -> None:
        self.dropped.append(self)


def clients(places: ConnectionPlaces, count: int, address: str = "a") -> list[Client]:
    made = [Client(address) for _ in range(count)]
    assert all(places.take(one) for one in made)
    return made


def dropped(made: list[Client]) -> list[int]:
    return [at for at, one in enumerate(made) if one.dropped]


def test_the_one_that_was_silent_longest_goes_for_a_newcomer() -> None:
    places = ConnectionPlaces(3, 3)
    made = clients(places, 3)
    places.heard(made[0])
    assert places.take(Client())
    assert dropped(made) == [1]
    assert len(places) == 3


def test_nobody_whose_request_is_under_way_goes() -> None:
    places = ConnectionPlaces(2, 2)
    made = clients(places, 2)
    for one in made:
        one.is_waiting = False
    assert not places.take(Client())
    made[1].is_waiting = True
    assert places.take(Client())
    assert dropped(made) == [1]


def test_an_address_has_a_share_and_pushes_out_its_own() -> None:
    places = ConnectionPlaces(4)
    other, made = clients(places, 1, "b"), clients(places, 2)
    assert places.take(Client())
    assert dropped(made) == [0]
    assert dropped(other) == []
    for one in made:
        one.is_waiting = False
    places.take(Client(is_waiting=False))
    assert not places.take(Client(is_waiting=False))
    assert dropped(other) == []
    assert places.take(Client("c"))


def test_places_are_given_back_and_handed_over() -> None:
    places = ConnectionPlaces(2, 1)
    shaking, connection = Client(), Client()
    assert places.take(shaking)
    places.hand_over(shaking, connection)
    places.leave(shaking)
    assert len(places) == 1
    places.leave(connection)
    places.leave(connection)
    assert len(places) == 0
    assert places.take(Client())
