"""A replica that has joined answers reads once it is level with its active, or a moment behind."""

from pathlib import Path

from msgspec.structs import replace

from qss_core.model import Epoch, Offset, Ordinal
from qss_store.replicas.apply.catch_up import CatchUp
from qss_store.replication.follower import Append, Moment
from qss_store.replication.log import Log
from qss_store.storage.engine import META
from qss_testing.fakes.virtual_time import SetClock
from qss_testing.pods.one_replica import BEGINNING
from qss_testing.pods.stores import configuration, open_memory

_LEARNING = configuration(0, 0, learners=[1], epoch=3)
_JOINED = configuration(0, 0, standbys=[1], epoch=4)


class Standby:
    """A replica on pod 1 that has joined with 200 entries, none of them applied."""

    def __init__(self, directory: Path) -> None:
        self.clock = SetClock()
        self.engine = open_memory()(directory)
        self.log = Log(
            pod=Ordinal(1), configuration=_JOINED, end=Offset(200), watermark=Offset(200)
        )
        self.catch_up = CatchUp({}, self.log, _LEARNING, "now", self.clock)

    def hear(self, watermark: int, process: str = "now") -> None:
        append = Append(
            configuration=_JOINED,
            previous=BEGINNING,
            watermark=Offset(watermark),
            after=Moment(process, 0.0),
        )
        self.catch_up.heard(append, self.log, self.engine)

    def apply(self, end: int, after_s: float = 0.0) -> None:
        self.clock.now_s += after_s
        self.log = replace(self.log, applied=Offset(end), end=Offset(max(end, self.log.end)))
        self.catch_up.applied(self.log, Epoch(3), self.engine)

    @property
    def answers(self) -> bool:
        return not self.catch_up.lacks_rows(self.log, misses_active=False)


def test_a_backlog_that_took_long_is_followed_by_what_came_meanwhile(tmp_path: Path) -> None:
    standby = Standby(tmp_path)
    assert not standby.answers
    standby.hear(100)
    standby.apply(99, after_s=13.0)
    standby.hear(160)
    standby.apply(100, after_s=1.0)
    assert not standby.answers, "its state is that of 14 s ago"
    standby.apply(159, after_s=1.0)
    assert not standby.answers
    standby.apply(160, after_s=0.5)
    assert standby.answers


def test_a_standby_without_a_backlog_answers_at_once(tmp_path: Path) -> None:
    standby = Standby(tmp_path)
    standby.apply(200)
    assert not standby.answers, "its active may have more"
    standby.hear(150, process="an earlier one")
    assert not standby.answers
    standby.hear(200)
    assert standby.answers


def test_a_standby_that_gets_no_more_level_answers_in_the_end(tmp_path: Path) -> None:
    standby = Standby(tmp_path)
    tries = 0
    while not standby.answers:
        tries += 1
        standby.hear(100 * tries)
        standby.hear(100 * tries + 50)
        standby.apply(100 * tries, after_s=60.0)
    assert tries == 8


def test_an_active_has_everything_once_it_has_applied_an_entry_of_its_epoch(
    tmp_path: Path,
) -> None:
    standby = Standby(tmp_path)
    standby.log = replace(standby.log, configuration=configuration(0, 1, epoch=5))
    assert not standby.answers
    standby.catch_up.applied(standby.log, Epoch(4), standby.engine)
    assert not standby.answers
    standby.catch_up.applied(standby.log, Epoch(5), standby.engine)
    assert standby.answers


def test_a_database_keeps_that_its_replica_is_behind_until_it_is_level(tmp_path: Path) -> None:
    standby = Standby(tmp_path)
    batch = standby.engine.batch()
    standby.catch_up.put(batch)
    standby.engine.write(batch)

    def started_again() -> CatchUp:
        meta = dict(standby.engine.scan(META))
        found = CatchUp(meta, standby.log, _JOINED, "later", standby.clock)
        found.confirmed()
        return found

    assert started_again().lacks_rows(standby.log, misses_active=True)
    standby.hear(200)
    standby.apply(200)
    later = started_again()
    assert later.lacks_rows(standby.log, misses_active=False)
    assert not later.lacks_rows(standby.log, misses_active=True)
