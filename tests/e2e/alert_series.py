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


_NAMED = {"namespace": "shop", "store": "words"}
_OF_STORE = {"namespace": "shop", "queryablestate_dev_store": "words"}
_OF_POD = {**_OF_STORE, "pod": "words-0"}
_TIMES = f'qss_request_seconds_bucket{{{POD},listener="query",route="/get"'
_NAMES = 'namespace="shop",store="words"'

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
}
