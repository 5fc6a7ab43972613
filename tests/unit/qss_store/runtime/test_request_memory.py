"""The memory that all requests may use together."""

import pytest

from qss_core.errors import OverloadedError, TooLargeError
from qss_store.runtime.request_memory import RequestMemory
from qss_store.transactions.position_limits import check_position_json


def test_what_others_have_is_not_there() -> None:
    memory = RequestMemory(100)
    one, other = memory.share(), memory.share()
    one.take(60)
    other.take(40)
    with pytest.raises(OverloadedError, match="100 bytes of requests and answers are in memory"):
        other.take(1)
    one.close()
    other.take(60)
    other.close()
    other.close()
    assert memory.used == 0


def test_alone_a_request_has_what_its_own_limits_allow() -> None:
    memory = RequestMemory(100)
    share = memory.share()
    share.take(99)
    share.take(1000)
    with pytest.raises(OverloadedError):
        memory.share().take(1)
    share.close()
    memory.share().take(1)


@pytest.mark.parametrize(("components", "told"), [(100_000, "bytes of JSON"), (5000, "components")])
def test_a_position_of_too_many_components_is_refused_as_bytes(components: int, told: str) -> None:
    position = b",".join(b'"t%d":{"0":1}' % number for number in range(components))
    with pytest.raises(TooLargeError, match=told):
        check_position_json(b'{"generation":1,"position":{%b}}' % position)
    check_position_json(b'{"generation":1,"position":{"t":{"0":1}}}')
    check_position_json(b'{"generation":')  # Others say what is wrong.
