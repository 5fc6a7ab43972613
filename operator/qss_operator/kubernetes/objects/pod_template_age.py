"""Finds pods that were made of an older template. Pure.

The StatefulSet restarts no pods (`OnDelete`): the planner chooses one pod after the other.
"""

from typing import Any

from qss_operator.kubernetes.names import TEMPLATE_ANNOTATION
from qss_operator.kubernetes.objects.pod_template import template_hash

Object = dict[str, Any]


def has_seen_its_template(stateful_set: Object) -> bool:
    """Whether a pod that is deleted now would come back with the present template."""
    seen: int = (stateful_set.get("status") or {}).get("observedGeneration", 0)
    generation: int = stateful_set["metadata"]["generation"]
    return seen >= generation


def is_outdated(pod: Object, stateful_set: Object) -> bool:
    """Whether a pod has another template than the StatefulSet."""
    annotations = pod["metadata"].get("annotations") or {}
    present = template_hash(stateful_set["spec"]["template"])
    made_of: str | None = annotations.get(TEMPLATE_ANNOTATION)
    return made_of != present


def is_ready(pod: Object) -> bool:
    """Whether the pod is Ready for the kubelet."""
    return any(
        one.get("type") == "Ready" and one.get("status") == "True"
        for one in (pod.get("status") or {}).get("conditions") or []
    )
