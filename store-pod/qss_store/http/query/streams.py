"""Sends scans as streams that are written while they are read, or as one JSON document.

Rows are not read ahead of a slow reader. A reader that goes away or takes nothing for too long ends
the scan, and its iterator is closed.
"""

import asyncio
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, field
from itertools import chain
from types import MappingProxyType
from typing import Protocol

import msgspec
from aiohttp import hdrs, web

from qss_core.errors import OverloadedError, TooLargeError
from qss_core.model import PartitionId
from qss_core.queries.requests import PartitionAnswer, encode_mark, error_of_failure
from qss_store.http.content_types import CSV_WITH_HEADER, CURSOR_HEADER, JSON, NDJSON
from qss_store.http.large_answers import LARGE_BYTES, patience, send_large, write_in_slices
from qss_store.http.middleware import takes_memory
from qss_store.reads.encode.csv_encoder import CsvRows
from qss_store.reads.encode.json import NdjsonRows, ScanEncoder
from qss_store.reads.encode.rows_for_pods import RowsForPod
from qss_store.reads.multi_scan import Event, Mark, ScannedRows

_CURSOR_MAX = 6000  # Clients take headers of at least 8 KiB.
_COPIES = 2  # A document's rows, and their copy on the way to the client.
_json = msgspec.json.encode


class EventSource(Protocol):
    """A scan: its rows, and a mark for each partition."""

    def events(self) -> AsyncGenerator[Event, None]:
        """The events; call it once."""


class StreamSlots:
    """Limits the number of scans that run at a time."""

    def __init__(self, streams_max: int) -> None:
        self._free = streams_max
        self._max = streams_max

    @property
    def is_full(self) -> bool:
        """Whether all slots are taken now."""
        return self._free == 0

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Holds one slot. Raises OverloadedError if none is free."""
        if self._free == 0:
            raise OverloadedError(f"{self._max} scans are running: try again", limit="streams_max")
        self._free -= 1
        try:
            yield
        finally:
            self._free += 1


@dataclass(slots=True)
class Collected:
    """A whole scan in memory: rows by partition, and each partition's answer."""

    rows: dict[PartitionId | None, list[bytes]] = field(default_factory=dict)
    answers: dict[PartitionId, PartitionAnswer] = field(default_factory=dict)
    cursor: str | None = None

    @property
    def all_rows(self) -> Iterator[bytes]:
        """All rows as JSON; a chunk may have several rows with commas between them."""
        return chain.from_iterable(self.rows.values())

    def result_of(self, partition: PartitionId) -> msgspec.Raw:
        """One partition's rows as a JSON array."""
        return msgspec.Raw(b"[%b]" % b",".join(self.rows.get(partition, ())))


async def collect(request: web.Request, scan: EventSource) -> Collected:
    """Reads the whole scan, within its budget and the request's memory."""
    collected = Collected()
    async with aclosing(scan.events()) as events:
        async for event in events:
            if isinstance(event, ScannedRows):
                takes_memory(request, _COPIES * len(event.data))
                collected.rows.setdefault(event.partition, []).append(event.data)
            else:
                collected.answers[event.partition] = event.answer
                if event.answer.failure is not None:
                    collected.rows.pop(event.partition, None)  # The position does not cover them.
                collected.cursor = event.cursor
    collected.answers = dict(sorted(collected.answers.items()))
    return collected


class StreamEncoder(ScanEncoder, Protocol):
    """Encodes a scan as the bytes of a stream."""

    media: str

    def of_mark(self, mark: Mark) -> bytes:
        """The mark after a partition."""

    def end(self) -> bytes: ...


class NdjsonEncoder(NdjsonRows):
    """Encodes one row a line, and a mark after each partition."""

    media = NDJSON

    def of_mark(self, mark: Mark) -> bytes:
        return encode_mark(mark.partition, mark.answer, mark.cursor) + b"\n"

    def end(self) -> bytes:
        """Empty: the last mark ends the stream."""
        return b""


class PodEncoder(RowsForPod, NdjsonEncoder):
    """Encodes the rows of this pod for another one, which asked for their row keys."""


async def stream(
    request: web.Request, scan: EventSource, encoder: StreamEncoder, write_stall_max_s: float
) -> web.StreamResponse:
    """Writes the scan while it is read."""
    response = web.StreamResponse(headers={hdrs.CONTENT_TYPE: encoder.media})
    await response.prepare(request)
    async with aclosing(scan.events()) as events:
        async for event in events:
            with patience(request):
                data = event.data if isinstance(event, ScannedRows) else encoder.of_mark(event)
                await write_in_slices(request, response, data, write_stall_max_s)
    with patience(request):
        async with asyncio.timeout(write_stall_max_s):
            await response.write_eof(encoder.end())
    return response


async def stream_csv(
    request: web.Request, scan: EventSource, encoder: CsvRows, write_stall_max_s: float
) -> web.StreamResponse:
    """Writes a whole scan while it is read. CSV has no marks, so an answer is whole or breaks off.

    Raises the failure of a partition; before the first row the client gets it as a problem.
    """
    response = web.StreamResponse(headers={hdrs.CONTENT_TYPE: CSV_WITH_HEADER})
    cursor = None
    async with aclosing(scan.events()) as events:
        async for event in events:
            if isinstance(event, ScannedRows):
                data = event.data
                if not response.prepared:
                    await response.prepare(request)
                    data = encoder.header + data
                with patience(request):
                    await write_in_slices(request, response, data, write_stall_max_s)
            else:
                _check_answered(event.answer)
                cursor = event.cursor
    if cursor is not None:
        raise _not_whole()
    if not response.prepared:
        return web.Response(body=encoder.header, headers=response.headers)
    with patience(request):
        async with asyncio.timeout(write_stall_max_s):
            await response.write_eof()
    return response


async def send_csv_page(
    request: web.Request, scan: EventSource, encoder: CsvRows, write_stall_max_s: float
) -> web.StreamResponse:
    """Sends a page with its cursor in a header. Raises the failure of a partition."""
    found = await collect(request, scan)
    for answer in found.answers.values():
        _check_answered(answer)
    headers = {} if found.cursor is None else {CURSOR_HEADER: found.cursor}
    if len(found.cursor or "") > _CURSOR_MAX:
        raise TooLargeError(
            f"the cursor of this page is longer than {_CURSOR_MAX} bytes, which is too long for a "
            f"header: accept {NDJSON}, whose last line has the cursor",
            limit=_CURSOR_MAX,
        )
    parts = [encoder.header, *found.all_rows]
    return await send_document(request, parts, write_stall_max_s, CSV_WITH_HEADER, headers)


def _check_answered(answer: PartitionAnswer) -> None:
    if answer.failure is not None:
        raise error_of_failure(answer.failure)


def _not_whole() -> TooLargeError:
    return TooLargeError(
        "the answer reached a limit of streams before its last row: read pages with limit and "
        f"cursor, or accept {NDJSON}"
    )


async def send_document(
    request: web.Request,
    parts: Sequence[bytes],
    write_stall_max_s: float,
    media: str = JSON,
    beside: Mapping[str, str] = MappingProxyType({}),
) -> web.StreamResponse:
    """Sends a whole answer with the headers `beside`, a large one in slices within a time limit."""
    headers: dict[str, str] = {hdrs.CONTENT_TYPE: media, **beside}
    if sum(map(len, parts)) <= LARGE_BYTES:
        return web.Response(body=b"".join(parts), headers=headers)
    return await send_large(request, parts, headers, write_stall_max_s)


def scan_document(rows: Iterable[bytes], partitions: bytes, cursor: str | None) -> list[bytes]:
    """The parts of a scan's document, not joined, since copying megabytes takes long.

    `rows` are JSON, which may have several rows with commas between them; `partitions` is an
    object.
    """
    parts = [b'{"rows":[']
    for some in rows:
        parts += (some, b",")
    if len(parts) > 1:
        parts.pop()
    return [*parts, b'],"partitions":', partitions, b',"cursor":', _json(cursor), b"}"]


def answers_json(answers: dict[PartitionId, PartitionAnswer]) -> bytes:
    return _json({str(number): answer for number, answer in answers.items()})
