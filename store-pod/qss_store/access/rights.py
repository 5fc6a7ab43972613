"""Which request needs what: a right on the store, or to be one of its own pods or the operator.

Rights are those that a Role gives: verbs on subresources of the store's resource. Pure.
"""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import assert_never

from qss_core.errors import ForbiddenError

GROUP = "queryablestate.dev"
RESOURCE = "queryablestatestores"
NO_ROUTE = "(none)"  # Stands for paths that nothing serves.


class Right(StrEnum):
    """The subresource of a store that a Role names."""

    QUERY = "query"
    WRITE = "write"

    @property
    def verb(self) -> str:
        """The verb that goes with it."""
        return _VERBS[self]


_VERBS = {Right.QUERY: "get", Right.WRITE: "update"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Identities:
    """The store that is guarded, and the accounts that need no right on it.

    `audience` is what their tokens have to be made for.
    """

    store: str
    namespace: str
    pods: str
    operator: str | None = None
    audience: str = ""

    @property
    def all(self) -> frozenset[str]:
        return frozenset((self.pods, self.operator) if self.operator else (self.pods,))


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """One of `accounts`, or any one of `rights`; `is_for_all`: any account with a valid token."""

    accounts: frozenset[str] = field(default_factory=frozenset)
    rights: tuple[Right, ...] = ()
    is_for_all: bool = False


class Caller(StrEnum):
    """Who may ask a path of a port."""

    ANYBODY = "anybody"  # With a valid token, where tokens are asked for.
    READER = "reader"
    WRITER = "writer"
    CLIENT = "client"  # A reader, a writer, the operator or a pod.
    OPERATOR = "operator"  # Or a pod.
    POD = "pod"


def requirement_of(caller: Caller, identities: Identities) -> Requirement:
    """What the accounts of such callers need."""
    match caller:
        case Caller.ANYBODY:
            return Requirement(is_for_all=True)
        case Caller.READER:
            return Requirement(rights=(Right.QUERY,))
        case Caller.WRITER:
            return Requirement(rights=(Right.WRITE,))
        case Caller.CLIENT:
            return Requirement(accounts=identities.all, rights=(Right.QUERY, Right.WRITE))
        case Caller.OPERATOR:
            return Requirement(accounts=identities.all)
        case Caller.POD:
            return Requirement(accounts=frozenset({identities.pods}))
        case _:
            assert_never(caller)


def forbidden(account: str, requirement: Requirement, identities: Identities) -> ForbiddenError:
    """Says which right on which store the account lacks."""
    store = identities.store
    if not requirement.rights:
        allowed = " and ".join(sorted(requirement.accounts))
        return ForbiddenError(f"{account} may not do this to {store}: only {allowed} may")
    lacking = " or ".join(f"{right.verb} {RESOURCE}/{right}" for right in requirement.rights)
    return ForbiddenError(
        f"{account} may not {lacking} of {store}: a Role in namespace {identities.namespace} "
        f"has to allow it (API group {GROUP})"
    )


def unbound(account: str, identities: Identities) -> ForbiddenError:
    """Says that an account's token is one that other stores see, too."""
    return ForbiddenError(
        f"{account} has to show {identities.store} a token with the audience "
        f"{identities.audience}: the operator and other pods are known by that one alone"
    )
