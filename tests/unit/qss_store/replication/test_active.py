"""The entries that an active sends to each replica, and the acknowledgements it waits for."""

import pytest
from msgspec.structs import replace

from qss_core.model import Epoch, Offset, Ordinal, PartitionConfiguration, PartitionId
from qss_store.replication import active
from qss_store.replication import log as logs
from qss_store.replication.follower import StepBack
from qss_store.replication.log import Log

A, B, C = Ordinal(0), Ordinal(1), Ordinal(2)


def log_of(entries: int, epoch: int = 2, in_sync: tuple[Ordinal, ...] = (A, B)) -> Log:
    configuration = PartitionConfiguration(
        partition=PartitionId(3),
        epoch=Epoch(epoch),
        active=A,
        in_sync=in_sync,
        replicas=(A, B, C),
    )
    log = Log(pod=A, configuration=configuration, end=Offset(entries))
    return logs.acknowledge(log, A, log.end)


def test_each_replica_is_first_asked_whether_it_has_the_whole_log() -> None:
    log = log_of(5)
    peers = active.peers_of(log)
    assert (peers.epoch, peers.next) == (2, {B: 5, C: 5})


def test_an_active_steps_back_where_a_follower_asks_for_earlier_entries() -> None:
    log = log_of(5)
    back = StepBack(Offset(1), Offset(5))
    peers = active.step_back(active.peers_of(log), log, B, Epoch(2), back)
    assert active.send_from(peers, log, B) == 1
    back = StepBack(Offset(0), Offset(1))
    assert active.step_back(peers, log, B, Epoch(1), back) == peers, "of another epoch"


def test_a_replica_that_needs_entries_that_were_cut_has_to_copy_the_database() -> None:
    log = replace(log_of(5), start=Offset(3))
    peers = active.peers_of(log)
    for refused, first in ((5, 3), (3, None)):  # It may hold what it asks for.
        back = StepBack(Offset(2), Offset(refused))
        peers = active.step_back(peers, log, C, Epoch(2), back)
        assert active.send_from(peers, log, C) == first


def test_an_in_sync_replica_is_asked_at_the_start_of_a_log_that_was_cut_meanwhile() -> None:
    log = log_of(5)
    back = StepBack(Offset(1), Offset(5))
    peers = active.step_back(active.peers_of(log), log, B, Epoch(2), back)
    log = replace(log, start=Offset(3))
    assert active.send_from(peers, log, B) == 3
    _, log = active.acknowledged(peers, log, B, Epoch(2), Offset(4))
    assert active.send_from(peers, log, B) == 4, "what it acknowledged is not sent again"


def test_a_replica_whose_volume_went_back_is_noticed() -> None:
    log = log_of(20)
    _, log = active.acknowledged(active.peers_of(log), log, B, Epoch(2), Offset(20))
    back = StepBack(Offset(15), Offset(20))
    assert active.lacks_acknowledged(log, B, Epoch(2), back)
    assert not active.lacks_acknowledged(log, B, Epoch(1), back), "of another epoch"
    assert not active.lacks_acknowledged(log, C, Epoch(2), back), "it acknowledged nothing"
    cut = replace(log_of(20), start=Offset(10))
    assert active.lacks_acknowledged(cut, B, Epoch(2), StepBack(Offset(5), Offset(10)))
    assert not active.lacks_acknowledged(cut, B, Epoch(2), StepBack(Offset(5), Offset(20)))
    assert not active.lacks_acknowledged(cut, C, Epoch(2), StepBack(Offset(5), Offset(10)))


def test_a_learner_gets_synced_entries_alone_until_it_counts() -> None:
    log, _ = logs.append(log_of(5, in_sync=(A,)))
    assert (log.end, active.send_until(log, C)) == (6, 5)
    assert active.peers_of(log).next[C] == 5
    counted = replace(log, counted=frozenset({C}))
    assert active.send_until(counted, C) == 6
    assert active.send_until(log_of(5), B) == 5


def test_the_watermark_waits_for_every_in_sync_replica() -> None:
    log = log_of(5)
    peers, log = active.acknowledged(active.peers_of(log), log, C, Epoch(2), Offset(5))
    assert log.watermark == 0, "a learner's acknowledgement does not count"
    peers, log = active.acknowledged(peers, log, B, Epoch(2), Offset(3))
    assert log.watermark == 3
    assert active.send_from(peers, log, B) == 5, "more is on its way"


def test_an_acknowledgement_counts_in_its_own_epoch_alone() -> None:
    log = log_of(5)
    peers = active.peers_of(log)
    assert active.acknowledged(peers, log, B, Epoch(1), Offset(5)) == (peers, log)


def test_a_learner_that_was_asked_for_is_waited_for_until_the_next_configuration() -> None:
    log = log_of(5, in_sync=(A,))
    peers, log = active.acknowledged(active.peers_of(log), log, C, Epoch(2), Offset(5))
    assert logs.is_sole(log)
    log = active.count(log, C)
    assert active.is_caught_up(log, C, log.end)
    assert not logs.is_sole(log), "a sole replica applies before it has synced"
    log, _ = logs.append(log)
    log = logs.acknowledge(log, A, log.end)
    assert log.watermark == 5
    _, log = active.acknowledged(peers, log, C, Epoch(2), Offset(6))
    assert log.watermark == 6
    log = logs.reconfigure(log, log_of(5, epoch=3, in_sync=(A,)).configuration)
    assert logs.is_sole(log)


@pytest.mark.parametrize("held", [None, 4])
def test_a_learner_that_lacks_acknowledged_entries_is_not_caught_up(held: int | None) -> None:
    log = log_of(5, in_sync=(A,))
    if held is not None:
        log = logs.acknowledge(log, C, Offset(held))
    assert not active.is_caught_up(log, C, log.end), "it does not count"
    log = active.count(log, C)
    assert not active.is_caught_up(log, C, log.end)
    assert active.is_caught_up(logs.acknowledge(log, C, log.end), C, log.end)
