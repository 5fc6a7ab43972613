"""The wishes of the spec that the operator cannot carry out, with the reasons. Pure."""

from qss_operator.planning.formats import LOSSY_MIGRATION_NOT_ALLOWED, migrating
from qss_operator.planning.membership.pins import pins_message
from qss_operator.planning.model import ConditionType, Observation, Trouble

ACTIVES_NOT_UNDERSTOOD = "ActivesNotUnderstood"
UNSUPPORTED = "Unsupported"
RESIZE_REFUSED = "ResizeRefused"
# Reasons for which the API server will always refuse this child.
_REFUSED_CHILD = ("ObjectInvalid", "Forbidden", "NameTaken")
_FROM_CLUSTER = (
    (ConditionType.DEGRADED, UNSUPPORTED),
    (ConditionType.STORAGE_RESIZING, RESIZE_REFUSED),
)


def undone_wishes(observation: Observation) -> list[Trouble]:
    """The reason and the message of each wish that is not carried out."""
    found = [
        Trouble(reason=reason, message=finding[2])
        for kind, reason in _FROM_CLUSTER
        if (finding := observation.cluster.findings.get(kind)) is not None and finding[1] == reason
    ]
    if pins := pins_message(observation):
        found.append(Trouble(reason=ACTIVES_NOT_UNDERSTOOD, message=pins))
    _, reason, message = migrating(observation)
    if reason == LOSSY_MIGRATION_NOT_ALLOWED:
        found.append(Trouble(reason=reason, message=message))
    return [*found, *(one for one in observation.troubles if one.reason in _REFUSED_CHILD)]


def told(wishes: list[Trouble]) -> str:
    """The messages of all wishes in one text, each message once."""
    return "; ".join(dict.fromkeys(wish.message for wish in wishes))
