"""The `mv` commands that put folders of the state directory back, in an order that works.

Nothing here moves a folder: a message tells the commands, and a person carries them out literally.
"""

import shlex
from collections.abc import Mapping
from itertools import count
from pathlib import Path


def put_all(path: Path, places: Mapping[Path, Path]) -> str:
    """The commands that move each folder to its place, one after the other.

    A place that another one of the folders has is freed first. Of folders that were exchanged one
    waits beside the state directory `path`. What else is in a place is moved aside.
    """
    left, commands = dict(places), []
    while left:
        source = next((one for one, place in left.items() if place not in left), None)
        if source is None:
            first = next(iter(left))
            waiting = aside(path, first)
            commands.append(move(first, waiting))
            left[waiting] = left.pop(first)
        else:
            place = left.pop(source)
            commands.append(move(source, place) if place in places else put(path, source, place))
    return " && ".join(commands)


def put(path: Path, source: Path, target: Path) -> str:
    """The commands that move a folder to a place, and move the files of the place aside before."""
    freed = f"{move(target, aside(path, target))} && " if target.exists() else ""
    return freed + move(source, target)


def move(source: Path, target: Path) -> str:
    """The command that moves a folder to a place that is free."""
    return f"mv {shlex.quote(str(source))} {shlex.quote(str(target))}"


def aside(path: Path, folder: Path) -> Path:
    """A free place beside the state directory `path` for one of its folders."""
    name = "-".join([path.name or "state", *folder.relative_to(path).parts])
    beside = path.parent if path.name not in ("", "..") else path / ".."
    names = (name if number == 1 else f"{name}-{number}" for number in count(1))
    return next(place for one in names if not (place := beside / one).exists())
