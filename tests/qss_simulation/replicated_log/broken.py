"""Rules of the replicated log that are taken out one at a time, and the seeds that show it."""

from msgspec.structs import replace

from qss_core.errors import StoreError
from qss_core.model import Offset, Ordinal, PartitionConfiguration, Role
from qss_simulation.replicated_log.nodes import Guards, LogError
from qss_simulation.replicated_log.story import run
from qss_store.replication import follower
from qss_store.replication import log as logs
from qss_store.replication.follower import Append, PointAt, StepBack, Take
from qss_store.replication.log import Log

SEEDS = 500
FIRST = {  # Rules whose lack shows in few runs.
    "a follower takes entries of an older epoch": 1500,
    "a learner gets entries that the active has not synced": 500,
    "an active forgets in a restart which learner it asked for": 500,
    "a learner with all entries under a new active's watermark is taken in": 1500,
}


def held_by(log: Log, how_many: int) -> Log:
    """The watermark of an active that waits for so many replicas alone, itself among them."""
    if log.role is not Role.ACTIVE:
        return log
    ends = sorted(
        (log.durable.get(one, Offset(0)) for one in log.configuration.in_sync), reverse=True
    )
    at = ends[min(how_many, len(ends)) - 1]
    return replace(log, watermark=max(log.watermark, min(at, log.end)))


def of_any_epoch(log: Log, point_at: PointAt, append: Append) -> Take | StepBack:
    if log.role is Role.ACTIVE:
        return follower.receive(log, point_at, append)
    return follower.receive(log, point_at, replace(append, configuration=log.configuration))


def up_to_own_end(log: Log, point_at: PointAt, append: Append) -> Take | StepBack:
    found = follower.receive(log, point_at, append)
    if isinstance(found, StepBack) or found.cut_from is not None:
        return found
    return follower.Take(
        cut_from=None,
        first=found.first,
        entries=found.entries,
        matched=max(found.matched, log.end),
        watermark=found.watermark,
    )


def with_any_watermark(log: Log, point_at: PointAt, append: Append) -> Take | StepBack:
    found = follower.receive(log, point_at, append)
    if isinstance(found, StepBack) or found.cut_from is not None:
        return found
    end = max(log.end, found.matched)
    return follower.Take(
        cut_from=None,
        first=found.first,
        entries=found.entries,
        matched=found.matched,
        watermark=Offset(min(append.watermark, end)),
    )


def end_as_durable(log: Log, configuration: PartitionConfiguration) -> Log:
    taken = logs.reconfigure(log, configuration)
    return replace(taken, durable={log.pod: log.end})


def everything(log: Log, _: Ordinal) -> Offset:
    return log.end


BROKEN = {
    "a follower takes entries of an older epoch": Guards(receive=of_any_epoch),
    "an active waits for a majority": Guards(watermark=lambda log: held_by(log, 2)),
    "an active leaves a slow follower out by itself": Guards(watermark=lambda log: held_by(log, 1)),
    "a replica that is not in sync is promoted": Guards(promotes_any=True),
    "a new active drops its tail": Guards(drops_tail=True),
    "a new configuration takes the end for durable": Guards(reconfigure=end_as_durable),
    "a learner is admitted that was not waited for": Guards(
        counts_learners=False,
        is_caught_up=lambda log, learner, _: log.durable[learner] == log.end,
    ),
    "a learner with all entries under a new active's watermark is taken in": Guards(
        is_caught_up=lambda log, learner, _: log.durable[learner] >= log.watermark
    ),
    "an active forgets in a restart which learner it asked for": Guards(remembers_learners=False),
    "an active that started again acts in its old epoch": Guards(acts_after_restart=True),
    "a follower acknowledges before it has synced": Guards(acks_before_sync=True),
    "a follower acknowledges entries that were not compared": Guards(receive=up_to_own_end),
    "a watermark covers entries that were not compared": Guards(receive=with_any_watermark),
    "a learner gets entries that the active has not synced": Guards(send_until=everything),
}


def finding_seed(guards: Guards, first: int) -> int | None:
    """The first seed in which the replicas disagree, or lose what was acknowledged."""
    for seed in range(first, first + SEEDS):
        try:
            run(seed, guards)
        except (LogError, AssertionError, StoreError):
            return seed
    return None
