"""The requirement of each request: a right on the store, or an account of a pod or the operator.

A Role grants rights as verbs on subresources of the store's resource. Pure.
"""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import assert_never

from qss_core.errors import ForbiddenError

GROUP = "queryablestate.dev"
RESOURCE = "queryablestatestores"
NO_ROUTE = "(none)"  # Stands for paths without a route.


class Right(StrEnum):
    """A right, named as the store's subresource in a Role."""

    QUERY = "query"
    WRITE = "write"

    @property
    def verb(self) -> str:
        """The verb of the right in a Role."""
        return _VERBS[self]


_VERBS = {Right.QUERY: "get", Right.WRITE: "update"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Identities:
    """The guarded store, and the accounts that need no right on it.

    Their tokens need the audience `audience`.
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
    """The kind of caller that a path is for."""

    ANYBODY = "anybody"  # Any caller; with a valid token if tokens are asked for.
    BROWSER = "browser"  # Any caller, also without a token: the answer shows nothing of the store.
    READER = "reader"
    WRITER = "writer"
    CLIENT = "client"  # A reader, a writer, the operator or a pod.
    OPERATOR = "operator"  # The operator or a pod.
    POD = "pod"


def requirement_of(caller: Caller, identities: Identities) -> Requirement | None:
    """The requirement for a caller of this kind; None where no token is needed."""
    match caller:
        case Caller.ANYBODY:
            return Requirement(is_for_all=True)
        case Caller.BROWSER:
            return None
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
    """The error that names the missing right and the store."""
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
    """The error for a token with an audience that other stores accept, too."""
    return ForbiddenError(
        f"{account} needs a token with the audience {identities.audience} for "
        f"{identities.store}: only this audience identifies the operator and other pods"
    )
