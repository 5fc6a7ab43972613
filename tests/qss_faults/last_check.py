"""Compares every row of every in-sync replica with all batches, after the last fault."""

import json
from typing import Any

from qss_client.http.sync_http import SyncHttp
from qss_faults.content import Content
from qss_faults.history import History, compare, once
from qss_faults.machines import Machines
from qss_testing.clients.qss_command import STORE
from qss_testing.waiting import wait_until

_WITHIN_S = 30.0
_PAGE = 10_000


def check_replicas(machines: Machines, history: History, content: Content) -> int:
    """Compares all replicas, when the writer has ended; returns the number of compared rows."""
    http = SyncHttp()
    try:
        wait_until(lambda: _are_level(machines, history), _WITHIN_S)
    except AssertionError:
        history.record("lost", f"replicas stay behind: {_sequences(machines)}")
    try:
        return sum(_check_pod(machines, history, content, http, pod) for pod in machines.pods)
    finally:
        http.close()


def _sequences(machines: Machines) -> list[tuple[int, int, int]]:
    """The sequence of each replica, with its pod and its partition."""
    reports = [machines.report(pod) for pod in machines.pods]
    return [
        (int(report.ordinal), int(one.configuration.partition), int(one.sequence))
        for report in reports
        if report is not None
        for one in report.replicas
    ]


def _are_level(machines: Machines, history: History) -> bool:
    """Whether all replicas have the last acknowledged batch; others may have been begun."""
    found = _sequences(machines)
    held = machines.plan.partitions * (1 + machines.plan.standbys)
    least = history.acknowledged + 1
    return (
        len(found) == held
        and len({one[2] for one in found} | {least}) <= 2
        and (min(one[2] for one in found) >= least)
    )


def _check_pod(
    machines: Machines, history: History, content: Content, http: SyncHttp, pod: int
) -> int:
    held = [int(one.partition) for one in machines.configurations() if pod in one.in_sync]
    if not held:
        return 0
    rows, answers = _scanned(machines, content, http, pod, held)
    for partition in held:
        told = f"partition {partition} on pod {pod} at the end"
        answer = answers.get(partition, {})
        if "sequence" not in answer:
            history.record("lost", f"{told} cannot be read: {answer.get('failure')}")
            continue
        last = answer["sequence"] - 1
        if last < history.acknowledged:
            history.record("lost", f"{told}: {last} is its last batch, not {history.acknowledged}")
        if last > history.begun:
            history.record("doubled", f"{told}: {last + 1} batches, {history.begun + 1} begun")
        pairs = [
            content.pair(row)
            for row in rows
            if history.batches.partition_of(row["key"]) == partition
        ]
        expected = content.rows_at(partition, last)
        compare(history, told, expected, once(history, told, pairs))
    return len(rows)


def _scanned(
    machines: Machines, content: Content, http: SyncHttp, pod: int, held: list[int]
) -> tuple[list[Any], dict[int, Any]]:
    """The rows that a pod itself has, and the last answer of each partition."""
    url = (
        f"{machines.places[pod].query}{content.scan_path(STORE)}&limit={_PAGE}"
        f"&partitions={','.join(map(str, held))}"
    )
    rows: list[Any] = []
    answers: dict[int, Any] = {}
    cursor: str | None = ""
    while cursor is not None:
        more = f"&cursor={cursor}" if cursor else ""
        answer = json.loads(http.request("GET", f"{url}{more}").body)
        rows += answer["rows"]
        answers |= {int(number): one for number, one in answer["partitions"].items()}
        failed = any("failure" in one for one in answer["partitions"].values())
        cursor = None if failed else answer["cursor"]
    return rows, answers
