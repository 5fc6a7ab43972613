"""Writer epochs follow from the log's entries alone, not from messages to the pod."""

import msgspec

from qss_core.model import Epoch, WriterEpoch
from qss_core.wire.messages import decode, encode
from qss_store.transactions.commands import OpenWriter
from qss_store.transactions.coordinator import Coordinator


def opening(run: str, above: int = 0) -> OpenWriter:
    return OpenWriter(
        writer="job",
        query_id="query",
        run_id=run,
        open_id=f"open-{run}",
        take_over=False,
        one_off=False,
        above=WriterEpoch(above),
    )


def allotted(*entries: OpenWriter) -> list[int]:
    coordinator, epochs = Coordinator(), []
    for entry in entries:
        coordinator.apply_open(Epoch(2), 0, entry)
        epochs.append(int(coordinator.writer("job").writer_epoch))
    return epochs


def test_an_epoch_is_above_the_last_one_and_above_all_that_were_seen() -> None:
    entries = [opening("a"), opening("b", above=2_000_007), opening("c", above=5), opening("d")]
    assert allotted(*entries) == [2_000_001, 2_000_008, 2_000_009, 2_000_010]


def test_an_entry_from_before_gives_the_same_epoch() -> None:
    members = msgspec.json.decode(encode(opening("a")))
    members.pop("above", None)
    old = decode(msgspec.json.encode(members), OpenWriter)
    assert old == opening("a")
    assert allotted(old, old) == [2_000_001, 2_000_001]
