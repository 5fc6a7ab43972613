"""Series for which each alert must fire or stay silent, and samples that each panel must show.

The values are in the short form of Prometheus: `1+2x3` is 1, 3, 5, 7, one value a minute.
"""

from dataclasses import dataclass, field

from e2e.chart_values import RELEASE

Series = dict[str, str]

JOB = f"system/{RELEASE}-queryable-state-stores"
STORE = 'namespace="shop",queryablestate_dev_store="words"'
POD = f'{STORE},pod="words-0"'
_LONG = 200  # Minutes.


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertCase:
    """The series, and the summary and labels of the alert that fires."""

    fires: Series
    silent: Series
    summary: str
    labels: dict[str, str] = field(default_factory=dict)


def steady(value: float) -> str:
    return f"{value}+0x{_LONG}"


def rising(by: float) -> str:
    return f"0+{by}x{_LONG}"


def _each_ten_minutes(by: float) -> str:
    return " ".join(f"{by * number}+0x9" for number in range(_LONG // 10))


_NAMED = {"namespace": "shop", "store": "words"}
_OF_STORE = {"namespace": "shop", "queryablestate_dev_store": "words"}
_OF_POD = {**_OF_STORE, "pod": "words-0"}
_TIMES = f'qss_request_seconds_bucket{{{POD},listener="query",route="/get"'
_NAMES = 'namespace="shop",store="words"'
_OTHER = 'namespace="shop",store="other"'
_NO_COPY = "qss_operator_store_partitions_without_in_sync_replica"
_SHORT = "qss_operator_store_under_replicated_partitions"
_RECEIVED = "qss_replication_received_bytes_total"
_TAKEOVERS = "qss_takeover_seconds"

ALERTS = {
    "QueryableStateNoLeader": AlertCase(
        fires={'qss_operator_lease_held{pod="a"}': f"1 0+0x{_LONG}"},
        silent={
            'qss_operator_lease_held{pod="a"}': steady(0),
            'qss_operator_lease_held{pod="b"}': steady(1),
        },
        summary="No operator leads; stores serve, and nothing is repaired or changed.",
    ),
    "QueryableStateReconcileFails": AlertCase(
        fires={'qss_operator_reconciles_total{result="failed"}': rising(1)},
        silent={
            'qss_operator_reconciles_total{result="failed"}': steady(7),
            'qss_operator_reconciles_total{result="settled"}': rising(30),
        },
        summary="Rounds of the operator fail.",
    ),
    "QueryableStateOperatorForbidden": AlertCase(
        fires={
            'qss_operator_api_requests_total{verb="list",resource="pods",code="403"}': rising(1)
        },
        silent={
            'qss_operator_api_requests_total{verb="list",resource="pods",code="200"}': rising(9)
        },
        summary="The operator may not list pods.",
        labels={"verb": "list", "resource": "pods"},
    ),
    "QueryableStateOperatorSlow": AlertCase(
        fires={
            'qss_operator_queue_seconds_bucket{le="10"}': steady(0),
            'qss_operator_queue_seconds_bucket{le="30"}': rising(5),
            'qss_operator_queue_seconds_bucket{le="+Inf"}': rising(5),
        },
        silent={
            'qss_operator_queue_seconds_bucket{le="10"}': rising(5),
            'qss_operator_queue_seconds_bucket{le="30"}': rising(5),
            'qss_operator_queue_seconds_bucket{le="+Inf"}': rising(5),
        },
        summary="Stores wait longer than 10 s for the operator.",
    ),
    "QueryableStateStoreNotReady": AlertCase(
        fires={f"qss_operator_store_ready{{{_NAMES}}}": f"1 0+0x{_LONG}"},
        silent={f"qss_operator_store_ready{{{_NAMES}}}": steady(1)},
        summary="The store shop/words does not serve all of its partitions.",
        labels=_NAMED,
    ),
    "QueryableStateStoreDegraded": AlertCase(
        fires={f'qss_operator_store_degraded{{{_NAMES},reason="VolumeDeleted"}}': steady(1)},
        # The store was degraded for some time.
        silent={f'qss_operator_store_degraded{{{_NAMES},reason="VolumeDeleted"}}': "1+0x20 stale"},
        summary="The store shop/words needs attention: VolumeDeleted.",
        labels={**_NAMED, "reason": "VolumeDeleted"},
    ),
    "QueryableStateNoInSyncReplica": AlertCase(
        fires={f"{_NO_COPY}{{{_NAMES}}}": f"0 2+0x{_LONG}"},
        # A pod of a store without standbys restarts.
        silent={f"{_NO_COPY}{{{_NAMES}}}": "0+0x177 2+0x3"},
        summary="2 partitions of shop/words have no replica in sync that serves.",
        labels=_NAMED,
    ),
    "QueryableStateUnderReplicated": AlertCase(
        fires={f"{_SHORT}{{{_NAMES}}}": f"0 5+0x{_LONG}"},
        # A standby copies the database.
        silent={f"{_SHORT}{{{_NAMES}}}": "0+0x167 8+0x13"},
        summary="5 partitions of shop/words have fewer replicas in sync than the store asks for.",
        labels=_NAMED,
    ),
    "QueryableStateReplicaLags": AlertCase(
        fires={
            f'qss_replica_lag_seconds{{{POD},partition="3",role="standby"}}': rising(60),
            f'qss_replica_lag_seconds{{{POD},partition="4",role="standby"}}': steady(0.5),
        },
        silent={
            f'qss_replica_lag_seconds{{{POD},partition="3",role="standby"}}': steady(0.5),
            # A new replica copies the database.
            f'qss_replica_lag_seconds{{{POD},partition="4",role="learner"}}': rising(60),
        },
        summary="A standby on shop/words-0 is 3h 0m 0s behind its active.",
        labels=_OF_POD,
    ),
    "QueryableStateFlapping": AlertCase(
        fires={f"qss_operator_failovers_total{{{_NAMES}}}": "0 " + _each_ten_minutes(2)},
        # Two pods failed within an hour, and many partitions with each of them.
        silent={f"qss_operator_failovers_total{{{_NAMES}}}": "0+0x130 8+0x20 16+0x50"},
        summary="Partitions of shop/words were failed over 6 times within an hour.",
        labels=_NAMED,
    ),
    "QueryableStateMoveStuck": AlertCase(
        fires={
            f'qss_operator_store_moves{{{_NAMES},state="running"}}': f"0 2+0x{_LONG}",
            f'qss_operator_store_moves{{{_NAMES},state="waiting"}}': steady(4),
            f'qss_operator_moves_total{{{_NAMES},result="begun"}}': rising(1),
            f'qss_operator_moves_total{{{_NAMES},result="done"}}': steady(7),
            f'{_RECEIVED}{{{POD},kind="snapshot"}}': steady(5000),
            f'{_RECEIVED}{{{POD},kind="changelog"}}': rising(900),
        },
        silent={
            # This store copies a large database.
            f'qss_operator_store_moves{{{_NAMES},state="running"}}': steady(2),
            f'qss_operator_moves_total{{{_NAMES},result="done"}}': steady(7),
            f'{_RECEIVED}{{{POD},kind="snapshot"}}': rising(5000),
            # This one makes many small moves, and this one has none that runs.
            f'qss_operator_store_moves{{{_OTHER},state="running"}}': steady(2),
            f'qss_operator_moves_total{{{_OTHER},result="done"}}': rising(0.1),
            'qss_operator_store_moves{namespace="shop",store="calm",state="running"}': steady(0),
            'qss_operator_store_moves{namespace="shop",store="calm",state="waiting"}': steady(4),
        },
        summary="2 moves of shop/words run, and none of them came on for 30 minutes.",
        labels=_NAMED,
    ),
    "QueryableStateVolumeFills": AlertCase(
        fires={
            f"qss_volume_bytes{{{POD}}}": steady(1000),
            f"qss_volume_free_bytes{{{POD}}}": f"900-10x85 50+0x{_LONG}",
        },
        silent={
            f"qss_volume_bytes{{{POD}}}": steady(1000),
            f"qss_volume_free_bytes{{{POD}}}": steady(160),
        },
        summary="The volume of shop/words-0 has 5% left.",
        labels=_OF_POD,
    ),
    "QueryableStateWriterSilent": AlertCase(
        fires={f"qss_writer_silent_seconds{{{POD}}}": "0+60x60 3600+0x200"},
        silent={f"qss_writer_silent_seconds{{{POD}}}": "0 60 " * 100},
        summary=("A writer of shop/words has an open run and was not heard of for 1h 0m 0s."),
        labels=_OF_POD,
    ),
    "QueryableStateBatchStandsStill": AlertCase(
        fires={
            f"qss_staged_bytes{{{POD}}}": f"0 0 0 5000+0x{_LONG}",
            f"qss_commits_total{{{POD}}}": steady(12),
        },
        silent={
            f"qss_staged_bytes{{{POD}}}": steady(5000),
            f"qss_commits_total{{{POD}}}": rising(1),
        },
        summary="Rows of shop/words are staged, and no batch was committed for 30 minutes.",
        labels=_OF_STORE,
    ),
    "QueryableStateStorePodDown": AlertCase(
        fires={f'up{{job="{JOB}",{POD}}}': f"1 0+0x{_LONG}"},
        silent={f'up{{job="{JOB}",{POD}}}': steady(1), 'up{job="another"}': steady(0)},
        summary="The partitions of shop/words-0 are not served.",
        labels={**_OF_POD, "job": JOB},
    ),
    "QueryableStateLoopStalls": AlertCase(
        fires={f"qss_loop_stall_maximum_seconds{{{POD}}}": f"0 3+0x{_LONG}"},
        silent={
            f"qss_loop_stall_maximum_seconds{{{POD}}}": "0 3 0 0 0 " * 40,
            "qss_operator_loop_lag_seconds": steady(0.1),
        },
        summary="A process does not turn to its requests in time.",
        labels=_OF_POD,
    ),
    "QueryableStateRequestsFail": AlertCase(
        fires={
            f'qss_requests_total{{{POD},listener="query",status="200"}}': rising(60),
            f'qss_requests_total{{{POD},listener="query",status="503"}}': rising(6),
        },
        silent={
            f'qss_requests_total{{{POD},listener="query",status="200"}}': rising(600),
            f'qss_requests_total{{{POD},listener="query",status="503"}}': rising(6),
            f'qss_requests_total{{{POD},listener="query",status="404"}}': rising(600),
        },
        summary="More than one of twenty requests to words fails.",
        labels=_OF_STORE,
    ),
}

# By title of the panel: the series, and the samples of its expression.
PANELS: dict[str, tuple[Series, dict[str, float]]] = {
    "Requests by status": (
        {f'qss_requests_total{{{POD},listener="query",status="200"}}': rising(60)},
        {'{status="200"}': 1},
    ),
    "Request time, 99th percentile": (
        {
            f'{_TIMES},le="0.1"}}': rising(0),
            f'{_TIMES},le="0.2"}}': rising(60),
            f'{_TIMES},le="+Inf"}}': rising(60),
        },
        {'{route="/get"}': 0.199},
    ),
    "Rows applied": (
        {f"qss_committed_records_total{{{POD}}}": rising(120)},
        {'{queryablestate_dev_store="words"}': 2},
    ),
    "Time to apply a batch, longest": (
        {f"qss_commit_latency_maximum_seconds{{{POD}}}": steady(0.5)},
        {'{pod="words-0"}': 0.5},
    ),
    "Staged rows on disk, in no commit": (
        {f"qss_staged_bytes{{{POD}}}": steady(4096)},
        {'{pod="words-0"}': 4096},
    ),
    "Event loop, longest stall": (
        {f"qss_loop_stall_maximum_seconds{{{POD}}}": steady(0.25)},
        {'{pod="words-0"}': 0.25},
    ),
    "Stores looked after": (
        {'qss_operator_stores{pod="a"}': steady(7), 'qss_operator_stores{pod="b"}': steady(0)},
        {"{}": 7},
    ),
    "Rounds of the operator by result": (
        {'qss_operator_reconciles_total{result="settled"}': rising(60)},
        {'{result="settled"}': 1},
    ),
    "Requests to the API server": (
        {'qss_operator_api_requests_total{verb="get",resource="pods",code="200"}': rising(3)},
        {'{code="200", resource="pods", verb="get"}': 3},
    ),
    "Wait for the operator, 99th percentile": (
        {
            'qss_operator_queue_seconds_bucket{le="1"}': rising(0),
            'qss_operator_queue_seconds_bucket{le="2"}': rising(60),
            'qss_operator_queue_seconds_bucket{le="+Inf"}': rising(60),
        },
        {"{}": 1.99},
    ),
    "Actives by pod": (
        {
            f'qss_replicas{{{POD},role="active"}}': "4+0x170 0+0x30",
            f'qss_replicas{{{STORE},pod="words-1",role="active"}}': "4+0x170 8+0x30",
            f'qss_replicas{{{POD},role="standby"}}': steady(4),
        },
        {'{pod="words-0"}': 0, '{pod="words-1"}': 8},
    ),
    "Partitions failed over and handed over": (
        {
            f"qss_operator_failovers_total{{{_NAMES}}}": "0+0x170 4+0x30",
            f"qss_operator_handovers_total{{{_NAMES}}}": rising(1),
        },
        {'{change="failover", store="words"}': 0, '{change="handover", store="words"}': 5},
    ),
    "Time without an active, mean of the takeovers": (
        {
            f"{_TAKEOVERS}_sum{{{POD}}}": rising(14),
            f"{_TAKEOVERS}_count{{{POD}}}": rising(2),
        },
        {'{pod="words-0"}': 7},
    ),
    "Lease left, least of the actives": (
        {
            f'qss_lease_left_seconds{{{POD},partition="0"}}': steady(4.5),
            f'qss_lease_left_seconds{{{POD},partition="1"}}': steady(3.5),
        },
        {'{pod="words-0"}': 3.5},
    ),
    "Lag of standbys, longest": (
        {
            f'qss_replica_lag_seconds{{{POD},partition="0",role="standby"}}': steady(0.5),
            f'qss_replica_lag_seconds{{{POD},partition="1",role="standby"}}': steady(2),
            f'qss_replica_lag_seconds{{{POD},partition="2",role="learner"}}': steady(900),
        },
        {'{pod="words-0"}': 2},
    ),
    "Entries that a follower lacks, most": (
        {
            f'qss_follower_lag_offsets{{{POD},partition="0"}}': steady(0),
            f'qss_follower_lag_offsets{{{POD},partition="1"}}': steady(70),
        },
        {'{pod="words-0"}': 70},
    ),
    "Partitions with fewer replicas than asked for": (
        {f"{_SHORT}{{{_NAMES}}}": steady(5)},
        {'{store="words"}': 5},
    ),
    "Moves that run": (
        {
            f'qss_operator_store_moves{{{_NAMES},state="running"}}': steady(2),
            f'qss_operator_store_moves{{{_NAMES},state="waiting"}}': steady(9),
        },
        {'{store="words"}': 2},
    ),
    "Bytes sent for replicas": (
        {f'qss_replication_sent_bytes_total{{{POD},kind="changelog"}}': rising(6000)},
        {'{kind="changelog"}': 100},
    ),
    "Replicas copied from their active": (
        {f'qss_copied_replicas_total{{{POD},kind="rebuilt"}}': rising(1)},
        {'{kind="rebuilt", pod="words-0"}': 5},
    ),
    "Failovers": (  # An annotation: a line at the time of a failover.
        {
            f"qss_operator_failovers_total{{{_NAMES}}}": "0+0x178 4+0x30",
            f"qss_operator_failovers_total{{{_OTHER}}}": "0+0x100 4+0x99",
        },
        {'{namespace="shop", store="words"}': 1},
    ),
}
