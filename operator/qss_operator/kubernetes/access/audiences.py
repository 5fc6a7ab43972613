"""Which audience each pod of a store takes and shows, and the way from the common one. Pure.

Each store has an audience of its own. Pods that were made before take and show a common one. Such
a store is restarted pod by pod three times, so that at any time each pod takes what every other one
shows: first pods take both and show the common one, then they show their own, then they take it
alone.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from qss_core.audiences import own_audience
from qss_operator.kubernetes.names import StoreNames

Object = dict[str, Any]
CONTAINER = "store"
TAKES = "--token-audience="
PEERS = "--peers-audience="


@dataclass(frozen=True, slots=True, kw_only=True)
class PodAudiences:
    """One pod's: `takes` is what the operator's token has to be for.

    Other pods' tokens have to be for that one or for `peers`; the pod's own is for `shows`.
    """

    takes: str
    shows: str
    peers: str | None = None


def own_of(names: StoreNames) -> PodAudiences:
    """Of a pod that knows the store's own audience alone."""
    own = own_audience(names.namespace, names.store)
    return PodAudiences(takes=own, shows=own)


def audiences_of(pod_spec: Object) -> PodAudiences | None:
    """What a pod, or a template, was made with; None where the pod asks nobody who calls."""
    arguments = _arguments(pod_spec)
    takes = _value(arguments, TAKES)
    if takes is None:
        return None
    sources = (
        source.get("serviceAccountToken") or {}
        for volume in pod_spec.get("volumes") or ()
        if volume.get("name") == "token"
        for source in (volume.get("projected") or {}).get("sources") or ()
    )
    shows = next((one["audience"] for one in sources if one.get("audience")), takes)
    return PodAudiences(takes=takes, shows=shows, peers=_value(arguments, PEERS))


def is_pod_of(pod: Object, stateful_set: Object) -> bool:
    """Whether the StatefulSet controls the pod: a label alone anybody may write."""
    uid = stateful_set["metadata"]["uid"]
    owners = pod["metadata"].get("ownerReferences") or ()
    return any(
        one.get("controller") and one.get("kind") == "StatefulSet" and one.get("uid") == uid
        for one in owners
    )


def template_of(stateful_set: Object | None) -> PodAudiences | None:
    """What the StatefulSet makes pods with."""
    if stateful_set is None:
        return None
    return audiences_of(stateful_set["spec"]["template"]["spec"])


def next_audiences(
    alone: PodAudiences, template: PodAudiences | None, pods: Sequence[PodAudiences], replicas: int
) -> PodAudiences:
    """What the template should say now. `alone`: the store's own; `template`: what it says.

    A pod that is missing comes back as the template says: nothing new is begun meanwhile. Once the
    template says nothing of an older audience, no pod has a reason to: one that does is not ours.
    """
    if template == alone or (replicas == 0 and not pods):
        return alone
    members = [*pods, *([] if template is None else [template])]
    own = alone.takes
    older = next((one for one in _named(members) if one != own), None)
    if older is None:
        return alone
    if any(one.takes != own for one in members):
        return PodAudiences(takes=own, peers=older, shows=older)
    if template is not None and len(pods) < replicas:
        return template
    if any(one.shows != own for one in pods):
        return PodAudiences(takes=own, peers=older, shows=own)
    return alone


def _named(members: Iterable[PodAudiences]) -> Iterable[str]:
    for one in members:
        yield from (one.takes, one.shows)
        if one.peers is not None:
            yield one.peers


def _arguments(pod_spec: Object) -> list[str]:
    containers = pod_spec.get("containers") or ()
    found: Object = next((one for one in containers if one.get("name") == CONTAINER), {})
    return list(found.get("args") or ())


def _value(arguments: Iterable[str], flag: str) -> str | None:
    return next((one.removeprefix(flag) for one in arguments if one.startswith(flag)), None)
