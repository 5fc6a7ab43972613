"""One partition's log on three replicas: the product's rules and changelogs, without an event loop.

A seed chooses each step: an active appends or sends, any message arrives in any order, once, twice
or never, a sync ends, a machine loses its power, the operator removes or promotes a replica.
"""

from collections.abc import Callable
from random import Random  # noqa: TID251 seeded by its caller.
from typing import Any

from msgspec.structs import replace

from qss_core.errors import StaleEpochError
from qss_core.model import (
    Epoch,
    Offset,
    Ordinal,
    PartitionConfiguration,
    PartitionId,
    Role,
    WriterEpoch,
)
from qss_simulation.parts.disk import DatabaseFiles, SimulatedEngine
from qss_simulation.replicated_log.nodes import (
    Disk,
    Guards,
    HalfSyncs,
    LogError,
    Message,
    Node,
    Syncing,
    cut_all,
    engine_of,
    is_done,
    run_now,
)
from qss_store.replicas.changelog.changelog import Changelog
from qss_store.replication import active
from qss_store.replication import log as logs
from qss_store.replication.entries import encode_offset
from qss_store.replication.follower import Append, StepBack, Take
from qss_store.storage.commit_rows.commit_writer import APPLIED
from qss_store.storage.engine import CHANGELOG, META
from qss_store.transactions.commands import Abort, Barrier
from qss_testing.fakes.virtual_time import SetClock

PODS = (Ordinal(0), Ordinal(1), Ordinal(2))
_EPOCHS_MAX = 12
_ENTRIES_MAX = 12
_ONE_ENTRY, _MANY = 1, 1_000_000  # Bytes of a message.
_SEND, _ARRIVE, _SYNC = 20, 40, 15  # Weights of steps; those of rare ones are 1 to 3.


class ReplicatedLog:
    """Three replicas, their messages, and the operator's configuration."""

    def __init__(self, random: Random, guards: Guards) -> None:
        """All are in sync, and pod 0 is the active."""
        self._random = random
        self._guards = guards
        self._clock = SetClock()
        self.configuration = PartitionConfiguration(
            partition=PartitionId(0), epoch=Epoch(1), active=PODS[0], in_sync=PODS, replicas=PODS
        )
        self.nodes = [Node(pod, self.configuration) for pod in PODS]
        self.messages: list[Message] = []
        self.agreed: dict[int, bytes] = {}  # What was applied anywhere, by offset.
        self.acknowledged: dict[int, bytes] = {}  # What a client was told.
        self.appended = 0
        steps: list[tuple[int, Callable[[Node], None]]] = [
            (_SEND, self._send),
            (_ARRIVE, self._arrive),
            (_SYNC, self._sync),
            (9, self._append),
            (9, self._apply),
            (3, self._ask),
            (3, self._read_configuration),
            (1, self._remove),
            (1, self._promote),
            (1, self._crash),
            (3, self._start),
            (1, self._cut),
        ]
        self._weights, self._steps = zip(*steps, strict=True)
        for node in self.nodes:
            self._start(node)

    # --- Steps

    def step(self) -> None:
        """Takes one step that the seed chooses, and checks the replicas after it."""
        chosen = self._random.choices(self._steps, self._weights)[0]
        chosen(self._random.choice(self.nodes))
        self._check()

    def settle(self) -> None:
        """Without faults all replicas get in sync, and hold and have applied the same entries."""
        self.messages.clear()
        for node in self.nodes:
            self._start(node)
        self._publish(replace(self.configuration, epoch=Epoch(self.configuration.epoch + 1)))
        for _ in range(60):
            for work in (
                self._read_configuration,
                self._send,
                self._sync,
                self._sync,
                self._apply,
                self._ask,
            ):
                for node in self.nodes:
                    work(node)
            while self.messages:
                self._take_message(self.messages.pop(0))
            self._check()
            ends = {(node.log.log.end, node.log.log.applied) for node in self.nodes}
            if len(ends) == 1 and set(self.configuration.in_sync) == set(PODS):
                break
        else:
            raise LogError(f"the replicas do not get equal: {ends}, {self.configuration.in_sync}")
        if {node.log.point_at(node.log.log.end) for node in self.nodes} != {
            self.nodes[0].log.point_at(self.nodes[0].log.log.end)
        }:
            raise LogError("the replicas have other digests")

    def _append(self, node: Node) -> None:
        if not node.acts or self.appended >= _ENTRIES_MAX:
            return
        self._append_owed(node)
        self.appended += 1
        value = Abort(writer="w", generation=1, batch=self.appended, writer_epoch=WriterEpoch(1))
        node.log.append(value, b"")

    def _append_owed(self, node: Node) -> None:
        if node.log.owes_barrier:
            node.log.append(Barrier(), b"")

    def _send(self, node: Node) -> None:
        if not node.acts:
            return
        self._append_owed(node)
        log, held = node.log, node.log.log
        if node.peers is None or node.peers.epoch != held.configuration.epoch:
            node.peers = active.peers_of(held)
        for replica in node.peers.next:
            first = active.send_from(node.peers, held, replica)
            if first is None:
                self._copy(node, self.nodes[replica])
                node.peers = active.sent(node.peers, replica, held.end)
                continue
            previous = log.point_at(first)
            assert previous is not None, "the log reaches there"
            end = self._guards.send_until(held, replica)
            entries = log.entries_between(first, end, self._random.choice([_ONE_ENTRY, _MANY]))
            append = Append(
                configuration=held.configuration,
                previous=previous,
                entries=entries,
                watermark=held.watermark,
            )
            node.peers = active.sent(node.peers, replica, Offset(first + len(entries)))
            self.messages.append(Message("append", node.pod, replica, append))

    def _copy(self, node: Node, learner: Node) -> None:
        """The learner copies the active's synced database, as a snapshot does."""
        if learner.changelog is None or learner.configuration.epoch > node.configuration.epoch:
            return
        learner.files = DatabaseFiles(node.files.log[: node.files.durable])
        learner.changelog, learner.waiting = None, []
        self._start(learner)

    def _arrive(self, _: Node) -> None:
        if self.messages:
            at = self._random.randrange(len(self.messages))
            again = self._random.random() < 0.2
            message = self.messages[at] if again else self.messages.pop(at)
            self._take_message(message)

    def _take_message(self, message: Message) -> None:
        if message.kind == "learner":
            self._take_in(*message.content)
            return
        node = self.nodes[message.receiver]
        if node.changelog is None:
            return
        match message.kind:
            case "append":
                self._receive(node, message)
            case "acknowledged" if node.peers is not None:
                epoch, matched = message.content
                node.peers, node.log.log = active.acknowledged(
                    node.peers, node.log.log, message.sender, epoch, matched
                )
                node.log.log = self._guards.watermark(node.log.log)
            case "step-back" if node.peers is not None:
                epoch, back = message.content
                node.peers = active.step_back(node.peers, node.log.log, message.sender, epoch, back)
            case "refused":
                self._configure(node, message.content)

    def _receive(self, node: Node, message: Message) -> None:
        append: Append = message.content
        self._configure(node, append.configuration)
        try:
            found = self._guards.receive(node.log.log, node.log.point_at, append)
        except StaleEpochError:
            self._answer(message, "refused", node.configuration)
            return
        epoch = append.configuration.epoch
        if isinstance(found, StepBack):
            self._answer(message, "step-back", (epoch, found))
            return
        if found.cut_from is not None:
            node.durable_end = min(node.durable_end, found.cut_from)
            if node.syncing is not None:
                node.syncing.end = min(node.syncing.end, found.cut_from)
        node.log.take(found)
        answer = Message("acknowledged", node.pod, message.sender, (epoch, found.matched))
        waiting = self.messages if self._guards.acks_before_sync else node.waiting
        waiting.append(answer)

    def _answer(self, message: Message, kind: str, content: object) -> None:
        self.messages.append(Message(kind, message.receiver, message.sender, content))

    def _sync(self, node: Node) -> None:
        if node.changelog is None:
            return
        if node.syncing is None:
            node.syncing = Syncing(node.log.sync(), node.log.log.end, node.waiting)
            node.waiting = []
            assert not is_done(node.syncing.work), "a sync takes a turn"
            return
        syncing, node.syncing = node.syncing, None
        assert is_done(syncing.work), "a sync takes one turn"
        node.durable_end = max(node.durable_end, syncing.end)
        node.log.log = self._guards.watermark(node.log.log)
        epoch = node.configuration.epoch
        self.messages += [one for one in syncing.acknowledgements if one.content[0] == epoch]

    def _apply(self, node: Node) -> None:
        if node.changelog is None:
            return
        log = node.log
        for offset in logs.applicable(log.log):
            data = self._data(node, offset)
            if self.agreed.setdefault(offset, data) != data:
                raise LogError(f"pod {node.pod} applies another entry {offset}")
            log.applied(Offset(offset))
            if node.acts:
                self.acknowledged[offset] = data
        batch = engine_of(log).batch()
        batch.put(META, APPLIED, encode_offset(log.log.applied))
        engine_of(log).write(batch)

    def _cut(self, node: Node) -> None:
        if node.changelog is not None:
            cut_all(node.log)

    # --- Processes

    def _start(self, node: Node) -> None:
        if node.changelog is not None:
            return
        disk = Disk()
        engine = SimulatedEngine(disk, node.files)  # type: ignore[arg-type]
        meta = dict(engine.scan(META))
        syncs: Any = HalfSyncs(disk)
        node.changelog = Changelog(engine, node.pod, node.configuration, meta, self._clock, syncs)
        if not self._guards.remembers_learners:
            node.log.log = replace(node.log.log, counted=frozenset())
        node.durable_end = len(node.files.log) and node.log.log.end
        node.peers, node.syncing = None, None
        node.counted_at = {}
        node.may_act = self._guards.acts_after_restart or logs.is_sole(node.log.log)
        node.log.may_act = node.may_act

    def _crash(self, node: Node) -> None:
        if node.changelog is not None:
            node.changelog = None
            node.waiting.clear()
            node.files.lose(self._random, holes=False)

    def _configure(self, node: Node, configuration: PartitionConfiguration) -> None:
        if node.changelog is None or configuration.epoch <= node.configuration.epoch:
            return
        log = node.log.log
        is_next = configuration.active == node.pod and log.watermark < log.end
        if self._guards.drops_tail and is_next:
            node.log.take(
                Take(
                    cut_from=log.watermark,
                    first=log.watermark,
                    entries=(),
                    matched=log.watermark,
                    watermark=log.watermark,
                )
            )
            node.durable_end = min(node.durable_end, log.watermark)
            if node.syncing is not None:
                node.syncing.end = min(node.syncing.end, log.watermark)
        node.log.log = self._guards.reconfigure(node.log.log, configuration)
        node.configuration = configuration
        node.may_act = node.log.may_act = True
        node.peers, node.counted_at = None, {}

    # --- The operator

    def _publish(self, configuration: PartitionConfiguration) -> None:
        if configuration.epoch <= _EPOCHS_MAX + 4:
            self.configuration = configuration

    def _next(self, **changes: Any) -> None:
        epoch = Epoch(self.configuration.epoch + 1)
        if epoch <= _EPOCHS_MAX:
            self._publish(replace(self.configuration, epoch=epoch, **changes))

    def _read_configuration(self, node: Node) -> None:
        self._configure(node, self.configuration)

    def _remove(self, node: Node) -> None:
        held = self.configuration
        if node.pod != held.active and node.pod in held.in_sync:
            self._next(in_sync=tuple(one for one in held.in_sync if one != node.pod))

    def _promote(self, node: Node) -> None:
        held = self.configuration
        if node.changelog is None or node.pod == held.active:
            if node.pod == held.active:
                self._next()  # It started again, and asks for a new epoch.
            return
        if node.pod in held.in_sync or self._guards.promotes_any:
            in_sync = {*held.in_sync, node.pod} - {held.active}
            self._next(active=node.pod, in_sync=tuple(sorted(in_sync)))

    def _ask(self, node: Node) -> None:
        if not node.acts:
            return
        log = node.log.log
        for learner in PODS:
            is_learner = log.configuration.role_of(learner) is Role.LEARNER
            if not is_learner or log.durable.get(learner) is None:
                continue
            if self._guards.counts_learners and learner not in log.counted:
                run_now(node.log.count(learner))
                node.durable_end = node.counted_at[learner] = node.log.log.end
                return
            counted_at = node.counted_at.get(learner, log.end)
            if self._guards.is_caught_up(log, learner, counted_at):
                request = (log.configuration.epoch, learner)
                self.messages.append(Message("learner", node.pod, node.pod, request))
                return

    def _take_in(self, epoch: Epoch, learner: Ordinal) -> None:
        held = self.configuration
        if epoch == held.epoch and learner not in held.in_sync:
            changed = replace(
                held, epoch=Epoch(epoch + 1), in_sync=tuple(sorted({*held.in_sync, learner}))
            )
            self._publish(changed)

    # --- Checks

    def _check(self) -> None:
        """In-sync replicas hold durably what was acknowledged; none takes more for durable."""
        for node in self.nodes:
            if node.changelog is not None and node.log.durable_end > node.durable_end:
                raise LogError(f"pod {node.pod} takes entries for durable that no sync covered")
        for pod in self.configuration.in_sync:
            node = self.nodes[pod]
            if node.changelog is None:
                continue
            for offset, data in self.acknowledged.items():
                if offset < node.log.log.start:
                    continue
                if offset >= node.durable_end or self._data(node, offset) != data:
                    raise LogError(f"pod {pod} is in sync and lacks the acknowledged {offset}")

    def _data(self, node: Node, offset: int) -> bytes:
        data = engine_of(node.log).get(CHANGELOG, encode_offset(offset))
        assert data is not None, "the log has it"
        return data


def run(seed: int, guards: Guards, steps: int = 600) -> None:
    """Tells one run. Raises LogError, and any error that a broken rule leads to."""
    world = ReplicatedLog(Random(seed), guards)
    for _ in range(steps):
        world.step()
    world.settle()
