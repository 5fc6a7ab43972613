"""Puts the staged rows of one replica over its committed state, for readers of uncommitted rows.

When a reader needs them, the rows are placed in memory as their commit would place them: once for
each state; later chunks are added to the rows that are placed already. A row without a timestamp
gets the time at which its chunk came, since the time of its batch is unknown before the decision.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from operator import is_
from typing import NamedTuple

from zlib_ng.zlib_ng import crc32

from qss_core.errors import CorruptionError, DeadlineExceededError, NotReadyError
from qss_core.formats.values import Format
from qss_core.model import Offset
from qss_store.replicas.views.uncommitted_memory import UncommittedMemory, bytes_of, bytes_of_keys
from qss_store.replicas.views.view_maker import ViewMaker
from qss_store.replication.entries import encode_offset
from qss_store.storage.commit_rows.row_slices import Payload, SliceLimits, store_slices
from qss_store.storage.engine import PAYLOAD, Engine, FamilyView
from qss_store.storage.placement.placed_rows import RowPlacer
from qss_store.storage.placement.row_families import row_placer_of
from qss_store.storage.views.indexed import IndexedView
from qss_store.storage.views.overlaid import NO_ROWS, GrowingRows, OverlaidView, SortedRows
from qss_store.storage.views.read_view import ReadView
from qss_store.storage.views.segmented import SegmentedView
from qss_store.storage.views.versioned import VersionedView
from qss_store.transactions.commit_plan import CommitPlan
from qss_store.transactions.machine import Machine
from qss_store.transactions.staged import Clocks, StagedChunk

_Puts = defaultdict[str, GrowingRows]


class _State(NamedTuple):
    """The inputs that determine the placed rows."""

    applied: Offset  # Identifies the committed state.
    format: Format
    clocks: Clocks  # The counters of the committed state.
    chunks: tuple[StagedChunk, ...]

    def follows(self, other: "_State") -> bool:
        """Whether this state equals `other`, but for more chunks at its end."""
        if self[:-1] != other[:-1] or len(self.chunks) < len(other.chunks):
            return False
        return self.chunks is other.chunks or all(map(is_, self.chunks, other.chunks))


@dataclass(frozen=True, slots=True)
class _Made:
    """The placed rows of one state by family, and the counters after them."""

    state: _State
    rows: dict[str, SortedRows]
    clocks: Clocks
    index_bytes: int = 0  # The bytes of index rows: no chunk counts them.


class UncommittedRows:
    """The staged rows of one replica, for readers."""

    def __init__(
        self,
        machine: Machine,
        views: ViewMaker,
        engine: Engine,
        decoded: Callable[[Offset], Payload | None],
        memory: UncommittedMemory,
        limits: SliceLimits,
    ) -> None:
        """`decoded` returns the rows of an entry if they are kept in memory."""
        self._machine = machine
        self._views = views
        self._engine = engine
        self._decoded = decoded
        self._memory = memory
        self._limits = limits
        self._made: _Made | None = None
        self._index_bytes = 0  # The bytes of the index rows that are being placed.
        # The committed view, and the view with staged rows over it.
        self._shown: tuple[ReadView, ReadView] | None = None

    def forget(self) -> None:
        """Releases the memory; open iterators keep their rows."""
        self._made = self._shown = None
        self._memory.release(self)

    def view_of(self, view: ReadView) -> ReadView:
        """The newest committed `view` with the current staged rows over it.

        Raises NotReadyError where `prepare` has not placed the staged rows.
        """
        state = self._state(view)
        if not state.chunks:
            return view
        made = self._made
        if made is None or not _is_same(made.state, state):
            raise NotReadyError("the staged rows are being read: try again")
        if self._shown is None or self._shown[0] is not view:
            self._shown = (view, self._over(view, made))
        return self._shown[1]

    async def prepare(self, timeout_s: float) -> None:
        """Places the staged rows. Call `view_of` after it without an await between.

        Raises UncommittedTooLargeError and DeadlineExceededError.
        """
        if self._is_ready():
            return
        try:
            async with asyncio.timeout(timeout_s), self._memory.making:
                while not self._is_ready():
                    await self._make()
        except TimeoutError as error:
            raise DeadlineExceededError(
                f"the staged rows were not read within {timeout_s:.3g} s: ask with "
                "isolation=READ_COMMITTED"
            ) from error

    def _is_ready(self) -> bool:
        view = self._views.view
        if view is None:
            return True  # The read raises NotReadyError, as the replica does not serve.
        state = self._state(view)
        return not state.chunks or (self._made is not None and _is_same(self._made.state, state))

    def _state(self, view: ReadView) -> _State:
        chunks, clocks = self._machine.participant.uncommitted()
        return _State(view.applied, view.format, clocks, chunks)

    # --- Placing rows

    async def _make(self) -> None:
        """Places the current staged rows; stops where the state has changed meanwhile."""
        view = self._views.view
        assert view is not None, "only a replica with a view makes uncommitted rows"
        state = self._state(view)
        before = self._made
        if before is None or not state.follows(before.state):
            before = _Made(state._replace(chunks=()), {}, state.clocks)
        size = bytes_of(state.chunks)
        self._index_bytes = before.index_bytes
        self._memory.check(size + self._index_bytes)
        puts: _Puts = defaultdict(GrowingRows)
        present = _Beneath(self._views, before.rows, puts)
        clocks = before.clocks
        for chunk in state.chunks[len(before.state.chunks) :]:
            after = clocks.after(chunk, chunk.wall_time_ms)
            placer = self._placer(chunk, clocks, after, state, present)
            if not await self._place(chunk, placer, state, puts):
                return
            clocks = after
        rows = {**before.rows}
        for family, newer in puts.items():
            rows[family] = rows.get(family, NO_ROWS).with_rows(newer.rows)
        self._memory.hold(self, size + self._index_bytes)
        self._made, self._shown = _Made(state, rows, clocks, self._index_bytes), None

    async def _place(
        self,
        chunk: StagedChunk,
        placer: RowPlacer,
        state: _State,
        puts: _Puts,
    ) -> bool:
        """Adds a chunk's rows to `puts`; returns False where the state has changed meanwhile."""
        payload = self._decoded(chunk.offset)
        if payload is None:
            payload = self._engine.get(PAYLOAD, encode_offset(chunk.offset))
        if not self._is_current(state):
            return False
        if payload is None:
            raise CorruptionError(f"entry {chunk.offset} of the changelog has lost its rows")
        families = self._views.families
        stamp = chunk.wall_time_ms
        for part in store_slices([payload], state.format, stamp, placer, self._limits):
            if part.keys:
                for rows in placer.split(part.keys, part.values, part.places):
                    puts[rows.family].put(rows.keys, rows.values)
                    if rows.family == families.index:
                        self._index_bytes += bytes_of_keys(rows.keys)
            self._memory.check(bytes_of(state.chunks) + self._index_bytes)
            await asyncio.sleep(0)  # Other requests take their turn.
            if not self._is_current(state):
                return False
        return True

    def _is_current(self, state: _State) -> bool:
        """Whether the placed rows are still right: the state is the same, or has more chunks."""
        view = self._views.view
        return view is not None and self._state(view).follows(state)

    def _placer(
        self,
        chunk: StagedChunk,
        before: Clocks,
        after: Clocks,
        state: _State,
        present: "_Beneath",
    ) -> RowPlacer:
        plan = CommitPlan(
            payloads=(),
            default_timestamp_ms=chunk.wall_time_ms,
            data_generation=self._machine.participant.data_generation,
            replaces=False,
            stream_time=after.stream_time,
            stream_time_before=state.clocks.stream_time,  # The stream time before the batch.
            puts_before=before.puts,
            changes={},
            records=chunk.records,
        )
        return row_placer_of(self._views.definition, self._views.families, plan, present)

    # --- The view

    def _over(self, view: ReadView, made: _Made) -> ReadView:
        offsets = ",".join(str(chunk.offset) for chunk in made.state.chunks)
        told = f"{len(made.state.chunks)}-{crc32(offsets.encode()):08x}"
        return view.over(self._overlaid(view.rows, made), made.clocks.stream_time, told)

    def _overlaid(self, rows: FamilyView, made: _Made) -> FamilyView:
        families = self._views.families
        segments = {number: made.rows[name] for number, name in families.segments_in(made.rows)}
        others = made.rows.get(families.name, NO_ROWS)
        if isinstance(rows, VersionedView):
            return rows.overlaid(others, segments, made.clocks.stream_time)
        if isinstance(rows, SegmentedView):
            return rows.overlaid(segments, made.clocks.stream_time)
        if isinstance(rows, IndexedView):
            assert families.index is not None, "there are index rows"
            index = OverlaidView(rows.index, made.rows.get(families.index, NO_ROWS))
            return IndexedView(OverlaidView(rows.rows, others), index)
        return OverlaidView(rows, others)


class _Beneath:
    """The rows below the next staged row: committed rows with earlier staged rows over them."""

    def __init__(self, views: ViewMaker, below: Mapping[str, SortedRows], puts: _Puts) -> None:
        self._views = views
        self._below = below
        self._puts = puts

    def families(self) -> Iterable[str]:
        return {*self._committed(), *self._below, *self._puts}

    def get(self, family: str, key: bytes) -> bytes | None:
        return self.view(family).get(key)

    def view(self, family: str) -> FamilyView:
        below = OverlaidView(self._committed().get(family), self._below.get(family, NO_ROWS))
        return OverlaidView(below, self._puts.get(family, NO_ROWS))

    def _committed(self) -> dict[str, FamilyView]:
        view = self._views.view  # Read each time: a move of rows publishes another view.
        assert view is not None, "there is a committed state"
        families, rows = self._views.families, view.rows
        if not isinstance(rows, VersionedView):
            return {families.name: rows}
        segments = rows.history.segments.items()
        history = {families.of_segment(number): one for number, one in segments}
        return {families.name: rows.latest, **history}


def _is_same(one: _State, other: _State) -> bool:
    return len(one.chunks) == len(other.chunks) and other.follows(one)
