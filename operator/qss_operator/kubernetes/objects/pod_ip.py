"""Finds the IP at which a pod's process can be reached."""

from typing import Any

from qss_operator.kubernetes.objects.pod_template_age import is_ready

Object = dict[str, Any]


def ip_of(pod: Object | None, *, comes_back: bool) -> str | None:
    """The address of a pod whose container runs.

    A pod that is being ended and made again serves until it has handed over what it has. One that
    is not Ready may be on a node without power, and then only seems to run.
    """
    if pod is None:
        return None
    if "deletionTimestamp" in pod["metadata"] and not (comes_back and is_ready(pod)):
        return None
    status = pod.get("status") or {}
    running = any(
        "running" in (one.get("state") or {}) for one in status.get("containerStatuses") or []
    )
    ip: str | None = status.get("podIP")
    return ip if running else None
