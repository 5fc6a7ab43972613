"""Composes a pod in one place, for its process, for tests and for simulations.

These pass their own transport to other pods, their own clock, and their own function that opens a
database.
"""

from dataclasses import dataclass

from qss_client.clock import Clock
from qss_store.replicas.opening.open_database import OpenEngine
from qss_store.replicas.pod import Pod
from qss_store.replicas.pod_context import PodConfig
from qss_store.replicas.report import OperatorWord
from qss_store.replicas.transfer.learner_copies import LearnerCopies
from qss_store.replicas.transfer.log_receiver import LogReceiver
from qss_store.replicas.transfer.row_comparison import RowComparison
from qss_store.replicas.transfer.senders import Senders
from qss_store.replicas.transfer.snapshots import Snapshots
from qss_store.replicas.volume.scrubber import Scrubber
from qss_store.runtime.metrics import Metrics
from qss_store.runtime.peer_client import Transport
from qss_store.runtime.plugins import Extensions
from qss_store.runtime.settings import Settings
from qss_store.writes.coordinator_service import CoordinatorService
from qss_store.writes.participant_service import ParticipantService
from qss_store.writes.sequence_comparison import Comparison
from qss_store.writes.sweeper import Sweeper


@dataclass(frozen=True, slots=True, kw_only=True)
class PodServices:
    """A pod and the services that work on its replicas; nothing runs before `pod.start`."""

    settings: Settings
    extensions: Extensions
    pod: Pod
    operator_word: OperatorWord
    participant: ParticipantService
    coordinator: CoordinatorService
    sweeper: Sweeper
    comparison: Comparison
    senders: Senders
    log_receiver: LogReceiver
    snapshots: Snapshots
    copies: LearnerCopies
    row_comparison: RowComparison
    scrubber: Scrubber


def build_pod(
    config: PodConfig,
    transport: Transport,
    clock: Clock,
    open_engine: OpenEngine,
    salvage_engine: OpenEngine | None = None,
    metrics: Metrics | None = None,
) -> PodServices:
    """Composes a pod; `salvage_engine` opens a damaged database without its damaged parts."""
    settings = config.settings
    pod = Pod(config, open_engine, clock, metrics or Metrics(), salvage_engine)
    participant = ParticipantService(pod, config.directory)
    coordinator = CoordinatorService(pod, participant, transport, settings)
    row_comparison = RowComparison(pod.registry, transport, settings)
    snapshots = Snapshots(pod, config.directory)
    copies = LearnerCopies(pod, config.directory, transport, settings.replica_timeout_s)
    return PodServices(
        settings=settings,
        extensions=config.extensions,
        pod=pod,
        operator_word=OperatorWord(clock),
        participant=participant,
        coordinator=coordinator,
        sweeper=Sweeper(pod, coordinator, snapshots, transport, settings),
        comparison=Comparison(pod, transport, settings),
        senders=Senders(
            pod.ordinal,
            pod.registry,
            pod.send_signal,
            transport,
            clock,
            settings.replica_timeout_s,
            pod.metrics.replication,
        ),
        log_receiver=LogReceiver(pod.registry, copies, pod.report_feed),
        snapshots=snapshots,
        copies=copies,
        row_comparison=row_comparison,
        scrubber=Scrubber(
            pod.registry.replicas,
            pod.registry.found_damage,
            row_comparison.compare,
            settings,
            clock,
        ),
    )
