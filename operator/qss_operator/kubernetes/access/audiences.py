"""The audiences of each pod's tokens, and the change from the common audience. Pure.

Each store has its own audience. Pods made by older operators accept and show a common one. Such a
store is restarted pod by pod three times, so that each pod always accepts the tokens of all others:
first the pods accept both and show the common one, then they show their own, then they accept only
their own.
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
    """The audiences of one pod: `takes` is that of the operator's token.

    Tokens of other pods have that audience or `peers`; the pod's own token has `shows`.
    """

    takes: str
    shows: str
    peers: str | None = None


def own_of(names: StoreNames) -> PodAudiences:
    """The audiences of a pod that uses only the store's own audience."""
    own = own_audience(names.namespace, names.store)
    return PodAudiences(takes=own, shows=own)


def audiences_of(pod_spec: Object) -> PodAudiences | None:
    """The audiences in the arguments of a pod or template; None if the pod checks no tokens."""
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
    """Whether the StatefulSet controls the pod; a label alone is no proof."""
    uid = stateful_set["metadata"]["uid"]
    owners = pod["metadata"].get("ownerReferences") or ()
    return any(
        one.get("controller") and one.get("kind") == "StatefulSet" and one.get("uid") == uid
        for one in owners
    )


def template_of(stateful_set: Object | None) -> PodAudiences | None:
    """The audiences in the StatefulSet's template."""
    if stateful_set is None:
        return None
    return audiences_of(stateful_set["spec"]["template"]["spec"])


def next_audiences(
    alone: PodAudiences, template: PodAudiences | None, pods: Sequence[PodAudiences], replicas: int
) -> PodAudiences:
    """The audiences for the template. `alone`: the store's own; `template`: the present ones.

    A missing pod comes back with the present template, so no next step begins meanwhile. After the
    last step no pod of the store names an older audience; a pod that does is not the store's.
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
