"""The shares of partitions in the memory for staged rows."""

import pytest

from qss_core.errors import StoreError
from qss_store.replicas.views.uncommitted_memory import UncommittedMemory, bytes_of


def test_partitions_of_a_pod_share_the_memory() -> None:
    class Holder:
        def __init__(self) -> None:
            self.forgotten = 0

        def forget(self) -> None:
            self.forgotten += 1
            memory.release(self)

    memory = UncommittedMemory(100)
    one, other, third = Holder(), Holder(), Holder()
    memory.hold(one, 60)
    memory.hold(other, 40)
    memory.hold(one, 50)
    memory.hold(third, 10)
    assert (one.forgotten, other.forgotten, third.forgotten) == (0, 0, 0)
    memory.hold(third, 60)
    assert (one.forgotten, other.forgotten, third.forgotten) == (1, 1, 0)
    memory.hold(other, 40)
    assert third.forgotten == 0
    memory.hold(one, 1)
    assert third.forgotten == 1
    with pytest.raises(StoreError, match="uncommitted_rows_bytes_max"):
        memory.check(101)
    assert bytes_of(()) == 0
