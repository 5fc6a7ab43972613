"""Finds the reason why a pod does not run or answer, from its status. Pure."""

from typing import Any

Object = dict[str, Any]

_LINE_CHARS_MAX = 300
# A starting pod waits with these reasons, which are no trouble.
_ON_THE_WAY = ("ContainerCreating", "PodInitializing", "")


def trouble_of(pod: Object | None) -> str | None:
    """The trouble of a pod, or None for a pod that runs or is starting."""
    if pod is None:
        return None
    status = pod.get("status") or {}
    for container in status.get("containerStatuses") or []:
        if trouble := _container_trouble(container):
            return trouble
    if status.get("phase") == "Failed":
        return _cut(f"failed: {status.get('message') or status.get('reason') or 'no reason given'}")
    return None


def wait_of(pod: Object | None, claim: Object | None) -> str | None:
    """The reason why a pod does not start yet; a wait of more than seconds is a trouble."""
    status = (pod or {}).get("status") or {}
    unscheduled = _condition(status, "PodScheduled")
    if unscheduled is not None and unscheduled.get("status") == "False":
        return _cut(f"has no node: {unscheduled.get('message') or unscheduled.get('reason')}")
    if status.get("phase") == "Pending" and claim is not None and _is_pending(claim):
        return "waits for its volume: the claim is Pending"
    return None


def silence_of(pod: Object | None) -> str | None:
    """The message if the pod does not answer; None for a pod that was not ready, or is stopping.

    A kubelet changes a pod and its containers together. Where only the pod is not ready, the
    node controller changed it: the kubelet does not report, for example without power.
    """
    status = (pod or {}).get("status") or {}
    containers = status.get("containerStatuses") or []
    was_ready = bool(containers) and all(_is_ready(container) for container in containers)
    if pod is None or not was_ready:
        return None
    node = (pod.get("spec") or {}).get("nodeName") or "(unknown)"
    ready = _condition(status, "Ready")
    if ready is not None and ready.get("status") != "True":
        return f"was ready and does not answer; its node {node} does not report any more"
    if "deletionTimestamp" in pod["metadata"]:
        return None
    return f"was ready and does not answer; its node is {node}"


def _is_ready(container: Object) -> bool:
    return container.get("ready") is True and "running" in (container.get("state") or {})


def _container_trouble(container: Object) -> str | None:
    waiting = (container.get("state") or {}).get("waiting")
    last = (container.get("lastState") or {}).get("terminated")
    if waiting is not None and waiting.get("reason", "") not in _ON_THE_WAY:
        said = _ending(last) if last else waiting.get("message", "")
        restarts = container.get("restartCount", 0)
        often = f" ({restarts} restarts)" if restarts else ""
        return _cut(f"is in {waiting['reason']}{often}: {said}")
    ended = (container.get("state") or {}).get("terminated")
    if ended is not None:
        return _cut(_ending(ended))
    return None


def _ending(terminated: Object) -> str:
    lines = [line for line in (terminated.get("message") or "").splitlines() if line.strip()]
    how = terminated.get("reason") or "ended"
    said = f"; it said last: {lines[-1].strip()}" if lines else ""
    return f"{how} with exit code {terminated.get('exitCode')}{said}"


def _is_pending(claim: Object) -> bool:
    return (claim.get("status") or {}).get("phase") == "Pending"


def _condition(status: Object, kind: str) -> Object | None:
    return next((one for one in status.get("conditions") or [] if one.get("type") == kind), None)


def _cut(text: str) -> str:
    return text if len(text) <= _LINE_CHARS_MAX else f"{text[:_LINE_CHARS_MAX]}..."
