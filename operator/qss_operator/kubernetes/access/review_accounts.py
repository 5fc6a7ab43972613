"""Chooses the accounts of stores that are in the binding of reviews. Pure.

The binding is one object of at most 1.5 MB. So each namespace has a limit, and all together have
one: a namespace with thousands of stores cannot displace the others.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from qss_core.model import StoreName
from qss_operator.kubernetes.names import StoreNames

Object = dict[str, Any]
Account = tuple[str, str]  # Namespace and name.
NAMESPACE_MAX = 1000
ALL_MAX = 6000  # At most 220 bytes each.


def checks_callers(store: Object) -> bool:
    """Whether the store's pods check their callers; True if the resource cannot be read."""
    access = (store.get("spec") or {}).get("access") or {}
    return access.get("authentication") != "None"


def accounts_of(stores: Iterable[Object], bound: frozenset[Account]) -> dict[Account, str]:
    """The accounts of these stores' pods, with the time when each store was made.

    An account in the binding stays while its store exists: after a change to `authentication: None`
    the pods check their callers until each of them was restarted.
    """
    found = {}
    for store in stores:
        metadata = store["metadata"]
        names = StoreNames(namespace=metadata["namespace"], store=StoreName(metadata["name"]))
        account = (names.namespace, names.service_account)
        if checks_callers(store) or account in bound:
            found[account] = str(metadata.get("creationTimestamp") or "")
    return found


def within_limits(
    made: Mapping[Account, str],
    bound: frozenset[Account],
    *,
    namespace_max: int = NAMESPACE_MAX,
    all_max: int = ALL_MAX,
) -> set[Account]:
    """The accounts within the limits: in each namespace first the bound ones, then older ones."""
    by_namespace: dict[str, list[Account]] = {}
    for account in sorted(made, key=lambda one: (one not in bound, made[one], one)):
        by_namespace.setdefault(account[0], []).append(account)
    counts = {namespace: len(accounts) for namespace, accounts in by_namespace.items()}
    most = _share(counts, namespace_max, all_max)
    return {account for accounts in by_namespace.values() for account in accounts[:most]}


def left_out(made: Iterable[Account], taken: set[Account]) -> dict[str, int]:
    """The number of accounts without a place, by namespace."""
    return dict(Counter(account[0] for account in made if account not in taken))


def _share(counts: Mapping[str, int], namespace_max: int, all_max: int) -> int:
    """The limit of one namespace at which all together stay within `all_max`."""
    left, namespaces = all_max, len(counts)
    for count in sorted(counts.values()):
        if count * namespaces > left:
            return min(namespace_max, left // namespaces)
        left, namespaces = left - count, namespaces - 1
    return namespace_max
