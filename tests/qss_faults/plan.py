"""Chooses a store's size and the order of its faults from a seed. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import cycle
from random import Random  # noqa: TID251 a seed chooses.

STEPS = 8  # The operator is killed before or after one of its first steps.


class Kind(StrEnum):
    """The kinds of faults, by their names."""

    KILL = "kill"
    KILL_ALL = "kill-all"
    PAUSE = "pause"
    PAUSE_PAST_LEASE = "pause-past-lease"
    PAUSE_ALL = "pause-all"
    TORN_WAL = "torn-wal"
    HOLED_WAL = "holed-wal"
    FLIPPED_WAL = "flipped-wal"
    FLIPPED_SST = "flipped-sst"
    LOST_VOLUME = "lost-volume"
    OPERATOR = "operator-step"
    OPERATOR_AWAY = "operator-away"
    DRIVER = "driver-again"
    CUT_OFF = "cut-off"
    CUT_PEERS = "cut-peers"
    ONE_WAY = "one-way"
    ONE_WAY_OPERATOR = "one-way-operator"
    CUT_CLIENTS = "cut-clients"
    ONLY_CLIENTS = "only-clients"
    FULL_DISK = "full-disk"
    SLOW_DISK = "slow-disk"
    HUNG_DISK = "hung-disk"


TELLS = {
    Kind.KILL: "SIGKILL of pod {pod}",
    Kind.KILL_ALL: "SIGKILL of all pods at once",
    Kind.PAUSE: "SIGSTOP of pod {pod} for less than the lease",
    Kind.PAUSE_PAST_LEASE: "SIGSTOP of pod {pod} past the lease",
    Kind.PAUSE_ALL: "SIGSTOP of all pods past the lease",
    Kind.TORN_WAL: "the ends of the WALs of pod {pod} are torn off",
    Kind.HOLED_WAL: "a page in each WAL of pod {pod} is zeros",
    Kind.FLIPPED_WAL: "a bit in each WAL of pod {pod} flips",
    Kind.FLIPPED_SST: "a bit in an SST of each partition of pod {pod} flips",
    Kind.LOST_VOLUME: "the volume of pod {pod} is emptied",
    Kind.OPERATOR: "SIGKILL of pod {pod}, and of the operator at its step {step}",
    Kind.OPERATOR_AWAY: "the operator is away while pod {pod} is killed",
    Kind.DRIVER: "the writer opens a new run",
    Kind.CUT_OFF: "pod {pod} is cut off from everything",
    Kind.CUT_PEERS: "pods {pod} and {other} do not reach each other",
    Kind.ONE_WAY: "packets from pod {pod} to pod {other} are lost, others arrive",
    Kind.ONE_WAY_OPERATOR: "packets from pod {pod} to the operator are lost, others arrive",
    Kind.CUT_CLIENTS: "packets from pod {pod} to all clients are lost, others arrive",
    Kind.ONLY_CLIENTS: "only clients reach pod {pod}",
    Kind.FULL_DISK: "the disk of pod {pod} is full",
    Kind.SLOW_DISK: "writes to the disk of pod {pod} wait again and again",
    Kind.HUNG_DISK: "writes to the disk of pod {pod} hang past the time of a silent replica",
}
KEY_VALUE, DUPLICATES = CONTENTS = ("KeyValue", "Window with duplicates")
OF_LINKS = (
    *(Kind.CUT_OFF, Kind.CUT_PEERS, Kind.ONE_WAY),
    *(Kind.ONE_WAY_OPERATOR, Kind.CUT_CLIENTS, Kind.ONLY_CLIENTS),
)
OF_DISKS = (Kind.FULL_DISK, Kind.SLOW_DISK, Kind.HUNG_DISK)
# The operator has several steps, so it is struck more often than anything else.
ALL = (*Kind, Kind.OPERATOR, Kind.OPERATOR)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One fault, with all choices that the seed made."""

    kind: Kind
    pod: int
    other: int  # Another pod.
    step: int  # The step of the operator at which it is killed.
    seed: int  # Chooses bytes of files.

    @property
    def told(self) -> str:
        """The fault as text for a person."""
        return TELLS[self.kind].format(pod=self.pod, other=self.other, step=self.step)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A store, and the faults that strike it in this order."""

    seed: int
    pods: int
    standbys: int
    partitions: int
    content: str
    faults: tuple[Fault, ...]
    lease_s: float = 2.0
    silent_s: float = 3.0  # failoverAfter and replicaTimeout.

    @property
    def past_lease_s(self) -> float:
        """The time that a pod is away so that others take over, wait for its lease, and write."""
        return 2 * self.lease_s + self.silent_s + 2.0


def plan_of(
    seed: int, kinds: Sequence[Kind] = ALL, count: int | None = None, pods: int | None = None
) -> Plan:
    """The plan of a seed: each kind once in a shuffled order, or `count` faults."""
    random = Random(seed)
    pods = pods or 3 + seed % 3
    chosen = _shuffled(random, kinds, len(kinds) if count is None else count)
    steps = cycle(random.sample(range(STEPS), STEPS))
    return Plan(
        seed=seed,
        pods=pods,
        standbys=1 + seed % 2,
        partitions=4,
        content=CONTENTS[seed // 2 % 2],
        faults=tuple(_fault(random, kind, pods, next(steps)) for kind in chosen),
    )


def _shuffled(random: Random, kinds: Sequence[Kind], count: int) -> Iterator[Kind]:
    left: list[Kind] = []
    for _ in range(count):
        if not left:
            left = random.sample(list(kinds), len(kinds))
        yield left.pop()


def _fault(random: Random, kind: Kind, pods: int, step: int) -> Fault:
    pod, other = random.sample(range(pods), 2)
    return Fault(kind=kind, pod=pod, other=other, step=step, seed=random.randrange(2**32))
