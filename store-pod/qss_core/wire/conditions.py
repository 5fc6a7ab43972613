"""The conditions of a store's resource, which the operator tells the store's pods."""

from qss_core.model import Answer, StoreId


class StoreCondition(Answer, frozen=True, kw_only=True):
    """One condition, as the resource's status has it; `last_transition_time` is RFC 3339.

    `status` is True, False or Unknown. Programs read `reason`, people read `message`.
    """

    type: str
    status: str
    reason: str
    message: str
    last_transition_time: str


class TellConditionsRequest(Answer, frozen=True, kw_only=True):
    """All conditions in the status, in its order. They name no key and no value of the store.

    The pod keeps them to show them, and nothing else depends on them. A receiver ignores members
    that it does not know.
    """

    store_id: StoreId
    conditions: tuple[StoreCondition, ...]


class ToldConditions(Answer, frozen=True, kw_only=True):
    """The conditions that a pod was told, and their age.

    `told_ago_s` are the seconds since the operator told them, which it does when they change;
    `operator_silent_s` are the seconds since its last request, one of which comes each round.
    """

    conditions: tuple[StoreCondition, ...]
    told_ago_s: float
    operator_silent_s: float
