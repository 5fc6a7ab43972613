"""One state of a partition for readers, with the position that belongs to exactly this state."""

from dataclasses import dataclass, replace

from qss_core.formats.values import Format, converter_of
from qss_core.model import Offset, Sequence
from qss_core.positions import Position, encode_token
from qss_store.storage.engine import FamilyView
from qss_store.storage.views.converted import ConvertedRows
from qss_store.storage.views.indexed import IndexedView
from qss_store.storage.views.segmented import SegmentedView


@dataclass(frozen=True, slots=True)
class ReadView:
    """A state of a partition. A replica replaces its view at each commit."""

    rows: FamilyView
    format: Format
    applied: Offset  # All entries with smaller offsets were applied.
    sequence: Sequence
    position: Position
    token: str  # The encoded position.
    stream_time: int  # Milliseconds; -1 before the first row that has a time.
    staged: str = ""  # Identifies the staged rows in the view; "": it has none.

    @classmethod
    def of(
        cls,
        rows: FamilyView,
        *,
        store_format: Format,
        applied: Offset,
        sequence: Sequence,
        position: Position,
        stream_time: int,
    ) -> "ReadView":
        """A view; its token is encoded once, not for each answer.

        Each view has its own token object, by which caches recognize the view.
        """
        token = encode_token(position)
        return cls(rows, store_format, applied, sequence, position, token, stream_time)

    def over(self, rows: FamilyView, stream_time: int, staged: str) -> "ReadView":
        """This state with staged rows over it; sequence and position do not change."""
        made = self.with_rows(rows, self.format)
        return replace(made, stream_time=stream_time, staged=staged)

    def with_rows(self, rows: FamilyView, store_format: Format) -> "ReadView":
        """The same state, with rows at another place or in another format."""
        made = ReadView.of(
            rows,
            store_format=store_format,
            applied=self.applied,
            sequence=self.sequence,
            position=self.position,
            stream_time=self.stream_time,
        )
        return replace(made, staged=self.staged) if self.staged else made

    def shown_in(self, wanted: Format) -> "ReadView":
        """The same state in another format, for a request that was planned in that format."""
        convert, rows = converter_of(self.format, wanted), self.rows
        if isinstance(rows, IndexedView):
            shown = IndexedView(ConvertedRows(rows.rows, convert), rows.index)
            return self.with_rows(shown, wanted)
        if isinstance(rows, SegmentedView):
            return self.with_rows(rows.converted(convert), wanted)
        return self.with_rows(ConvertedRows(rows, convert), wanted)
