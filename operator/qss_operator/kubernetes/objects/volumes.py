"""Plans how the volumes of a store grow. Pure.

The template of claims in a StatefulSet cannot change. So each claim is patched; then the set is
deleted without its pods, and made again with the new template.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from qss_core.quantities import parse_kubernetes_bytes
from qss_operator.kubernetes.names import StoreNames
from qss_operator.planning.findings.wishes import RESIZE_REFUSED
from qss_operator.planning.model import ConditionStatus, Finding

Object = dict[str, Any]

RESIZING = "Resizing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """Claims to patch to `size`, whether to replace the set, and the finding for the status."""

    claims: tuple[str, ...] = ()
    remake_set: bool = False
    finding: Finding | None = None


def plan_growth(
    size: str, claims: Mapping[str, Object], set_size: str | None, refused: str | None
) -> Growth:
    """The remaining steps until every claim and the set's template have `size`.

    `set_size` is that of the set's template, None without a set; `refused` is the API server's
    message to the last patch.
    """
    wanted = parse_kubernetes_bytes(size)
    small = [name for name, claim in claims.items() if _requested(claim) < wanted]
    if small and refused is not None:
        return Growth(claims=tuple(small), finding=(ConditionStatus.FALSE, RESIZE_REFUSED, refused))
    # The driver did not reach a requested size, and the spec was set back.
    small += [
        name for name, claim in claims.items() if _capacity(claim) <= wanted < _requested(claim)
    ]
    growing = [name for name, claim in claims.items() if _capacity(claim) < wanted]
    remake = set_size is not None and parse_kubernetes_bytes(set_size) != wanted
    if not growing and not remake and not small:
        return Growth()
    message = _progress(size, claims, growing)
    return Growth(
        claims=tuple(small),
        # Patch all claims first: a set of the new size would hide the remaining ones.
        remake_set=remake and not small,
        finding=(ConditionStatus.TRUE, RESIZING, message),
    )


def doomed_claims(names: StoreNames, claims: Mapping[str, Object]) -> list[str]:
    """The store's deleted volumes, which disappear when their pods stop."""
    return sorted(
        name
        for name, claim in claims.items()
        if "deletionTimestamp" in claim["metadata"] and names.is_claim(name)
    )


def largest_volume(claims: Iterable[Object]) -> str | None:
    """The largest size of a volume; a store's size may be set back to it."""
    sizes = [
        str(size)
        for claim in claims
        if (size := (claim.get("status") or {}).get("capacity", {}).get("storage")) is not None
    ]
    return max(sizes, key=parse_kubernetes_bytes, default=None)


def growth_refused(size: str, why: str) -> str:
    """The message about volumes that cannot grow."""
    return (
        f"volumes cannot grow to {size}: {why}. It is asked again until the storage class "
        "allows it (allowVolumeExpansion), or until storage.size is set back to what they have; "
        "meanwhile the store serves with the volumes that it has"
    )


def _progress(size: str, claims: Mapping[str, Object], growing: list[str]) -> str:
    done = f"{len(claims) - len(growing)} of {len(claims)} volumes have {size}"
    if not growing:
        return done
    waits = [
        condition.get("type", "")
        for condition in (claims[growing[0]].get("status") or {}).get("conditions") or []
    ]
    why = f" ({', '.join(waits)})" if waits else ""
    return f"{done}; waiting for the storage driver to grow {growing[0]}{why}"


def _requested(claim: Object) -> int:
    requests = claim.get("spec", {}).get("resources", {}).get("requests", {})
    return parse_kubernetes_bytes(requests.get("storage", 0))


def _capacity(claim: Object) -> int:
    """The size of a claim in bytes; an unbound claim counts with its requested size."""
    has = (claim.get("status") or {}).get("capacity", {}).get("storage")
    return _requested(claim) if has is None else parse_kubernetes_bytes(has)
