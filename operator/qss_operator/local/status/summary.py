"""Summarizes one store's status: its conditions, and the partitions of each pod."""

from collections.abc import Iterable, Mapping, Sequence

from qss_core.model import Role
from qss_operator.planning.model import Condition, StoreStatus
from qss_operator.planning.status import is_old

_BETWEEN = "; "  # Between the troubles of a message.
_STEPS_SHORTENED = 5  # Numbers with the same step above 1: fewer are listed.
_LONG = 50  # Characters of a text that is not repeated.


def summary_of(status: StoreStatus) -> str:
    """A line for each condition, each pod and the moves, for any number of partitions.

    A condition says where it says the same as an earlier one; in the status itself each is whole.
    """
    conditions = status.conditions or ()
    width = max((len(one.type) for one in conditions), default=0)
    lines = [
        f"{one.type:<{width}}  {one.status:<7}  {one.reason}: {_short(one, conditions[:number])}"
        for number, one in enumerate(conditions)
    ]
    return "\n".join([*lines, *_pods(status), *_moves(status)])


def _short(one: Condition, before: Sequence[Condition]) -> str:
    """The message of a condition; an earlier condition's name stands for the parts that it told.

    The parts of a message are compared in runs: a short part alone is quicker to read than a name.
    """
    parts, said = one.message.split(_BETWEEN), []
    while parts:
        length, earlier = _repeated(parts, before)
        if earlier is None:
            said.append(parts.pop(0))
            continue
        said.append(f"as {earlier.type} says")
        parts = parts[length:]
    return _BETWEEN.join(said)


def _repeated(parts: Sequence[str], before: Sequence[Condition]) -> tuple[int, Condition | None]:
    """The longest first run of the parts that an earlier condition has, and that condition."""
    for length in range(len(parts), 0, -1):
        run = _BETWEEN.join(parts[:length])
        if len(run) < _LONG:
            break
        for one in before:
            if f"{_BETWEEN}{run}{_BETWEEN}" in f"{_BETWEEN}{one.message}{_BETWEEN}":
                return length, one
    return 0, None


def _moves(status: StoreStatus) -> list[str]:
    if status.moves is None:
        return []
    running, pending = status.moves.running, status.moves.pending
    return [f"moving {status.moving or '0/0'}: {running} running, {pending} pending"]


def _pods(status: StoreStatus) -> list[str]:
    held: dict[int, dict[Role, list[int]]] = {}
    for entry in status.assignment or ():
        for pod in entry.replicas:
            role = entry.role_of(pod)
            if role is not None:
                held.setdefault(pod, {}).setdefault(role, []).append(entry.partition)
    verb = "was" if is_old(status) else "is"
    return [f"pod {pod} {verb} {_roles(roles)}" for pod, roles in sorted(held.items())]


def _roles(roles: Mapping[Role, list[int]]) -> str:
    """The roles of one pod, with their partitions."""
    said = {
        Role.ACTIVE: "active for partitions",
        Role.STANDBY: "standby for",
        Role.LEARNER: "learner for",
    }
    return ", ".join(f"{said[role]} {ranges(roles[role])}" for role in said if role in roles)


def ranges(numbers: Iterable[int]) -> str:
    """`0-3, 7, 9-11`: runs with the same step are shortened, as `0, 3, ..., 81`."""
    left = sorted(numbers)
    shown = []
    while left:
        step = left[1] - left[0] if len(left) > 1 else 1
        length = 1
        while length < len(left) and left[length] - left[length - 1] == step:
            length += 1
        if step > 1 and length < _STEPS_SHORTENED:
            length = 1
        run, left = left[:length], left[length:]
        if step > 1 and length > 1:
            shown += [str(run[0]), str(run[1]), "...", str(run[-1])]
        else:
            shown.append(f"{run[0]}-{run[-1]}" if length > 1 else str(run[0]))
    return ", ".join(shown)
