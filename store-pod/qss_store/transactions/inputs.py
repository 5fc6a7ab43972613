"""The components of the position that each writer has set. Pure.

A component of a position is a topic and a partition. After a take-over the writer reads its inputs
anew: the components that only this writer's older generations had set leave the position. The
components that another writer has set, too, stay, and so position bounds on them can still be met.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import msgspec

from qss_core.positions import BATCH_TOPICS, Component, Position
from qss_core.wire.messages import decode

Components = frozenset[Component]
_READ = b"read/"


@dataclass(slots=True)
class InputsRead:
    """The components that the newest generation of each writer has set.

    A writer without an entry here counts as one that has set all components.
    """

    by_writer: dict[str, Components] = field(default_factory=dict)

    @classmethod
    def load(cls, rows: Mapping[bytes, bytes]) -> "InputsRead":
        kind = list[Component]
        return cls(
            {
                key[len(_READ) :].decode(): frozenset(decode(value, kind))
                for key, value in rows.items()
                if key.startswith(_READ)
            }
        )

    def only_by(self, writer: str, others: Collection[str], position: Position) -> Components:
        """The components of a position that only this writer has set."""
        if not all(other in self.by_writer for other in others):
            return frozenset()
        mine = self.by_writer.get(writer, _inputs_of(position))
        return mine.difference(*(self.by_writer[other] for other in others))

    def take(
        self, writer: str, read: Position, *, begins: bool, replaces: bool
    ) -> dict[bytes, bytes | None]:
        """Adds the components that a batch has read; returns the changed meta rows.

        `begins`: the batch is the first of the writer's generation. `replaces`: the batch replaces
        all rows, so the components of all other writers go.
        """
        changed: dict[str, Components] = {}
        if replaces:
            changed = dict.fromkeys(self.by_writer, frozenset())
        if begins or replaces:
            changed[writer] = _inputs_of(read)
        elif writer in self.by_writer:
            changed[writer] = self.by_writer[writer] | _inputs_of(read)
        changed = {name: one for name, one in changed.items() if one != self.by_writer.get(name)}
        self.by_writer |= changed
        return {_key(name): msgspec.json.encode(sorted(one)) for name, one in changed.items()}

    def told(self) -> dict[str, tuple[Component, ...]]:
        """The components of each writer, as a BatchesHeld message has them."""
        return {writer: tuple(sorted(read)) for writer, read in sorted(self.by_writer.items())}

    def take_over(self, told: Mapping[str, Collection[Component]]) -> dict[bytes, bytes | None]:
        """Takes the components that another partition reported; returns the changed meta rows."""
        changes = self.forget(list(self.by_writer))
        self.by_writer = {writer: frozenset(read) for writer, read in told.items()}
        return changes | {
            _key(writer): msgspec.json.encode(sorted(read))
            for writer, read in self.by_writer.items()
        }

    def forget(self, writers: Collection[str]) -> dict[bytes, bytes | None]:
        """Forgets writers; returns the deleted meta rows."""
        known = [writer for writer in writers if self.by_writer.pop(writer, None) is not None]
        return {_key(writer): None for writer in known}


def _inputs_of(position: Position) -> Components:
    return frozenset(one for one in position.components if not one[0].startswith(BATCH_TOPICS))


def _key(writer: str) -> bytes:
    return _READ + writer.encode()
