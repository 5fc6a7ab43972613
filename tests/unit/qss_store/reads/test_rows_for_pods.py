"""A pod finds the row keys of another pod's rows again, and where a broken stream continues."""

import struct
from contextlib import AsyncExitStack
from typing import Any, cast

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qss_core.errors import MalformedBytesError, UnreachableError
from qss_core.model import PartitionId, Sequence, StoreType
from qss_core.queries.parameters import ReadOptions
from qss_core.queries.requests import ROW_START
from qss_store.reads.codec import Codec, codec_of
from qss_store.reads.encode.json import NdjsonRows
from qss_store.reads.encode.rows_for_pods import RowsForPod, ToldLines, row_key_of_line
from qss_store.reads.plans.keys import plan_scan
from qss_store.reads.request import ReadRequest
from qss_store.reads.routing.peer_reads import Lines
from qss_store.reads.scans.cursors import Piece
from qss_store.reads.scans.sources import RemoteSource
from qss_testing.any_rows import FORMATS, cases, one_by_one
from qss_testing.pods.stores import make_definition


class SomeLines:
    """Answers of a pod, some lines at a time, which then break off."""

    def __init__(self, *answers: list[bytes]) -> None:
        self._answers = [*answers]

    async def more(self) -> list[bytes]:
        """The next lines; none when the connection broke."""
        return self._answers.pop(0) if self._answers else []


def source(of: Codec, *answers: list[bytes], since: int = 3) -> RemoteSource:
    request = ReadRequest(of, plan_scan({}, of), ReadOptions())
    start = Piece(PartitionId(1), b"before", Sequence(since))
    lines = cast(Lines, SomeLines(*answers))
    return RemoteSource(lines, AsyncExitStack(), start, request, NdjsonRows(of, request.plan))


def told(**members: Any) -> bytes:
    return msgspec.json.encode(members)


@pytest.mark.parametrize("store_type", list(FORMATS))
@settings(deadline=None)
@given(data=st.data())
def test_the_row_keys_of_any_rows_are_found_again(
    store_type: StoreType, data: st.DataObject
) -> None:
    case = codec, plan, row_keys, rows = data.draw(cases(store_type))
    if codec.type is StoreType.WINDOW and not codec.retain_duplicates:
        row_keys[:] = [row_key[:-4] + bytes(4) for row_key in row_keys]  # As each writer does.
    lines = one_by_one(case)
    if lines is None:
        return
    sent = RowsForPod(codec, plan).of_rows(row_keys, rows).splitlines(keepends=True)
    cut = data.draw(st.integers(0, len(sent)))
    sorter, found = ToldLines(), []
    for some in (sent[:cut], sent[cut:]):
        found += sorter.rows([line.rstrip(b"\n") for line in some], ROW_START)
    assert [line for line, _ in found] == lines
    keys = [row_key or row_key_of_line(line, plan, codec) for line, row_key in found]
    assert keys == row_keys


def test_keys_that_their_rows_give_back_are_not_told() -> None:
    of = codec_of(make_definition())
    plan = plan_scan({}, of)
    keys, rows = [b"a", "é".encode()], [bytes(8) + b"1"] * 2
    usual = NdjsonRows(of, plan).of_rows(keys, rows)
    assert RowsForPod(of, plan).of_rows(keys, rows) == usual


@pytest.mark.parametrize(
    ("serde", "key", "is_told"),
    [
        ("string", b"a", False),
        ("string", b"\xff", True),
        ("json", b'{"a": 1}', False),
        ("json", b" 1", True),
        ("uuid", b"0000000a-0000-0000-0000-000000000001", False),
        ("uuid", b"0000000A-0000-0000-0000-000000000001", True),
        ("float64", struct.pack(">d", -0.0), False),
        ("float64", struct.pack(">d", float("inf")), False),
        ("float64", b"\x7f\xf8" + bytes(5) + b"\x01", True),
        ("float32", struct.pack(">f", 0.1), False),
        ("float32", b"\x7f\xc0\x00\x01", True),
    ],
)
def test_a_row_key_is_told_where_its_row_does_not_give_it_back(
    serde: str, key: bytes, is_told: bool
) -> None:
    of = codec_of(make_definition(key_serde=serde))
    plan = plan_scan({}, of)
    encoder, rows = RowsForPod(of, plan), [bytes(8) + b"1"]
    data = encoder.of_rows([key], rows)
    assert data.startswith(b'{"rowKey":') is is_told
    lines = NdjsonRows(of, plan).of_rows([key], rows).splitlines()
    assert encoder.of_own_lines([key], lines) == data


async def test_a_broken_stream_continues_behind_its_last_row_in_no_older_state() -> None:
    of = codec_of(make_definition())
    rows = [b'{"key":"a","value":1}', b'{"key":"b","value":2}']
    peer = source(of, [told(sequence=9)], rows)
    assert (await peer.more()).row_count == 2
    with pytest.raises(UnreachableError):
        await peer.more()
    assert peer.left_after_failure() == Piece(PartitionId(1), b"b", Sequence(9))


async def test_a_row_key_that_comes_before_the_rest_of_the_answer_is_that_of_the_next_row() -> None:
    of = codec_of(make_definition())
    row = '{"key":"�","value":1}'.encode()
    peer = source(of, [told(rowKey="/w==")], [row])
    assert await peer.keyed_lines() == [(b"\xff", row)]
    assert peer.left_after_failure() == Piece(PartitionId(1), b"\xff", Sequence(3))


async def test_a_pod_of_the_version_before_tells_rows_alone() -> None:
    of = codec_of(make_definition())
    row = b'{"key":"a","value":1}'
    peer = source(of, [row])
    assert await peer.keyed_lines() == [(b"a", row)]
    assert peer.left_after_failure() == Piece(PartitionId(1), b"a", Sequence(3))


async def test_a_broken_stream_without_rows_continues_where_it_began() -> None:
    peer = source(codec_of(make_definition()), [told(sequence=9)])
    with pytest.raises(UnreachableError):
        await peer.begin()
    assert peer.left_after_failure() == Piece(PartitionId(1), b"before", Sequence(3))


@pytest.mark.parametrize(
    "line",
    [
        b"{}",
        b"nothing",
        b'{"rowKey":1}',
        b'{"rowKey":"%"}',
        b'{"rowKey":"YQ=="}\n{"rowKey":"YQ=="}',
        b'{"rowKey":"YQ==","sequence":1}',
        b'{"sequence":"a"}',
        b'{"sequence":-1}',
        b'{"sequence":18446744073709551616}',
        b'{"sequence":1}\n{"sequence":1}',
        b'{"partition":1,"end":true,"sequence":7}',
        b"\xff",
    ],
)
async def test_lines_that_are_nothing_of_it_are_refused(line: bytes) -> None:
    answer = [*line.split(b"\n"), b'{"key":"a","value":1}']
    peer = source(codec_of(make_definition()), answer)
    with pytest.raises(MalformedBytesError, match="lines that are not rows"):
        await peer.more()
