"""Makes the views that readers of one replica get: after a commit, and after rows moved."""

from qss_core.model import Offset, StoreDefinition
from qss_store.replicas.views.current_view import CurrentView
from qss_store.storage.engine import Engine, FamilyView
from qss_store.storage.family_names import ColumnFamilies
from qss_store.storage.format_migration import Migration
from qss_store.storage.index_keys import Indexing
from qss_store.storage.views.read_view import ReadView
from qss_store.transactions.participant import Participant


class ViewMaker:
    """Makes views of the data generation that readers see; a commit may be writing the next one."""

    def __init__(
        self,
        definition: StoreDefinition,
        shown: CurrentView,
        engine: Engine,
        migration: Migration,
        indexing: Indexing | None,
        generation: int,
    ) -> None:
        """Publishes views of `engine` in `shown`; `generation` is that of the rows in it."""
        self.definition = definition
        self._shown = shown
        self._engine = engine
        self._migration = migration
        self._indexing = indexing
        self._generation = generation

    @property
    def view(self) -> ReadView | None:
        return self._shown.view

    @property
    def families(self) -> ColumnFamilies:
        """The column families of the rows that readers see."""
        return self.families_of(self.definition)

    def families_of(self, definition: StoreDefinition) -> ColumnFamilies:
        """The column families of the same rows under another definition."""
        return ColumnFamilies.of(definition, self._generation, self._indexing)

    def show(self, participant: Participant, applied: Offset) -> None:
        """Publishes the state of a participant whose rows are written."""
        self._generation = participant.data_generation
        self._shown.put(
            ReadView.of(
                self._rows(participant.stream_time),
                store_format=self.families.format,
                applied=applied,
                sequence=participant.sequence,
                position=participant.position,
                stream_time=participant.stream_time,
            )
        )

    def show_again(self) -> None:
        """Publishes the view again after rows moved between families."""
        if view := self.view:
            rows = self._rows(view.stream_time)
            self._shown.put(view.with_rows(rows, self.families.format))

    def approximate_count(self) -> int:
        """About how many rows readers see; 0 where they see none."""
        if self.view is None:
            return 0
        return self.families.approximate_count(self._engine, self.view.stream_time)

    def _rows(self, stream_time: int) -> FamilyView:
        moved = self._migration.moved_below
        return self.families.view(self._engine, stream_time, moved)
