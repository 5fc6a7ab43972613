"""Tables of the comparisons, as Markdown: for the terminal, and for the pages."""

from dataclasses import dataclass, field


@dataclass(slots=True)
class Table:
    """A table with a title; every row has as many cells as there are columns."""

    title: str
    columns: tuple[str, ...]
    rows: list[tuple[str, ...]] = field(default_factory=list)

    def add(self, *cells: str) -> None:
        """Adds one row at the end."""
        assert len(cells) == len(self.columns), cells
        self.rows.append(cells)

    def markdown(self) -> str:
        """The title as a line, and the table."""
        lines = [self.columns, tuple("---" for _ in self.columns), *self.rows]
        told = "".join(f"| {' | '.join(cells)} |\n" for cells in lines)
        return f"{self.title}:\n\n{told}"
