"""Finds folders of pods that a person renamed or exchanged, and the commands that undo it.

A pod keeps its number on its volume, as its databases have it. A volume without that number may be
of an older version; then only a pod without data tells that a folder was renamed.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from qss_core.model import StoreAssignment, StoreName
from qss_core.text import listed
from qss_operator.errors import StateDirectoryError
from qss_operator.local.directory.misplaced import kept_assignment, kept_definition
from qss_operator.local.directory.moves import aside, move, put, put_all

_DATABASES = "data/partitions/*/CURRENT"


def refuse_renamed_pods(path: Path, store: StoreName) -> None:
    """Raises StateDirectoryError where folders of pods have the data of other pods.

    `path` is the state directory. The numbers on the volumes say which pods the data is of, and the
    kept assignments which pods have partitions.
    """
    folder = path / store
    kept = [
        found
        for volume in folder.glob("pod-*/data")
        if (found := kept_assignment(volume)) is not None and found.definition.name == store
    ]
    filled = sorted(one.name for one in folder.glob("pod-*") if any(one.glob(_DATABASES)))
    pods = {f"pod-{number}" for one in kept for number in range(len(one.pods))}
    others = [one for one in filled if one not in pods]
    if told := _known(path, store, filled):
        also = f"; {_left_aside(path, store, others)}" if others else ""
        raise StateDirectoryError(f"{told}{also}")
    if (empty := sorted(pods & _assigned(kept) - {*filled})) and others:
        raise StateDirectoryError(_guessed(path, store, empty, others))


def _assigned(kept: Iterable[StoreAssignment]) -> set[str]:
    """The folders of the pods that have partitions."""
    entries = (entry for one in kept for entry in one.partitions)
    return {f"pod-{number}" for entry in entries for number in entry.replicas}


def _known(path: Path, store: StoreName, filled: Sequence[str]) -> str | None:
    """The words for folders that have the data of other pods; None where all have their own."""
    folder = path / store
    owners = {one: owner for one in filled if (owner := _owner(folder / one, store)) is not None}
    wrong = _to_move(owners, filled)
    if not wrong:
        return None
    held = listed([f"{folder / one} has the data of pod {of[4:]}" for one, of in wrong.items()])
    back = put_all(path, {folder / one: folder / of for one, of in wrong.items()})
    how = "exchanged" if wrong.keys() & {*wrong.values()} else "renamed"
    return (
        f"folders of pods of store {store} look {how}: {held}. `{back}` puts "
        f"{'each' if len(wrong) > 1 else 'it'} back and loses nothing"
    )


def _owner(pod: Path, store: StoreName) -> str | None:
    """The name of the folder that a pod's data belongs in; None where the volume does not say it.

    A volume of another store is refused with that store's name.
    """
    try:
        number = (pod / "data" / "pod-ordinal").read_text("ascii")
    except (OSError, UnicodeDecodeError):
        return None
    definition = kept_definition(pod / "data")
    if not number.isdecimal() or definition is None or definition.name != store:
        return None
    return f"pod-{int(number)}"


def _to_move(owners: Mapping[str, str], filled: Sequence[str]) -> dict[str, str]:
    """The folders that go to other places: each place is free, or becomes free by these moves.

    A copy beside the folder that it was made of stays, and its pod refuses it.
    """
    said = list(owners.values())
    wrong = {one: of for one, of in owners.items() if one != of and said.count(of) == 1}
    while taken := [one for one, of in wrong.items() if of in filled and of not in wrong]:
        wrong = {one: of for one, of in wrong.items() if one not in taken}
    return wrong


def _guessed(path: Path, store: StoreName, empty: Sequence[str], others: Sequence[str]) -> str:
    """The words for folders of no pod, of which the volumes do not say the pods."""
    folder = path / store
    told = f"{_places(folder, empty)} without data, and {_places(folder, others)} with data"
    if len(empty) == len(others) == 1:
        back = put(path, folder / others[0], folder / empty[0])
        ways = f"`{back}` puts it back and loses nothing"
    else:
        ways = "put each back under the number of its pod with `mv`"
    return (
        f"folders of pods of store {store} look renamed: {told}. {ways}; "
        f"{_left_aside(path, store, others)}"
    )


def _left_aside(path: Path, store: StoreName, others: Sequence[str]) -> str:
    folders = [path / store / one for one in others]
    asides = " && ".join(move(one, aside(path, one)) for one in folders)
    return f"`{asides}` moves folders aside that belong to no pod"


def _places(folder: Path, names: Sequence[str]) -> str:
    return listed([str(folder / name) for name in names])
