"""Any rows of any store, as hypothesis draws them: also of damaged bytes."""

from typing import Any

from hypothesis import strategies as st

from qss_core.errors import MalformedBytesError
from qss_core.formats.timed_keys import (
    STILL_VALID,
    TIME_MAX,
    encode_session_key,
    encode_version_key,
    encode_window_key,
)
from qss_core.formats.values import Format
from qss_core.model import StoreType
from qss_core.serdes.registry import SERDE_NAMES
from qss_core.times import Times
from qss_store.reads.codec import BARE, FULL, TIMESTAMPED, Codec, Shape, codec_of
from qss_store.reads.encode.timed_rows import make_writer
from qss_store.reads.plans.dispatch import RowsPlan
from qss_store.reads.plans.keys import ScanPlan
from qss_store.reads.plans.times import TimedPlan
from qss_testing.pods.stores import make_definition
from qss_testing.row_bytes import Record, encode_row

FORMATS = {
    StoreType.KEY_VALUE: (Format.Plain, Format.Timestamped, Format.TimestampedWithHeaders),
    StoreType.WINDOW: tuple(Format),
    StoreType.SESSION: (Format.Plain, Format.PlainWithHeaders),
    StoreType.VERSIONED: (Format.Plain,),
}
# Also damaged rows, with bytes that the serde never wrote.
ODD = (b"", b'"a"', b" 1 ", b'{"a":\n[1]}', b"1,2", b"\xff\xfe", b"\xed\xa0")
ANY_BYTES = st.binary(max_size=20) | st.sampled_from([*ODD, 'é\u2028"\\\x7f'.encode()])
TIMES = st.integers(0, 10**13) | st.sampled_from([0, TIME_MAX - 1, TIME_MAX])
HEADERS = st.lists(
    st.tuples(st.text(max_size=3), st.none() | st.binary(max_size=3)), max_size=2
).map(tuple)
WRITTEN = {
    "bytes": st.binary(max_size=300),
    "string": st.text(max_size=20).map(lambda text: text.encode(errors="replace")),
    "json": st.sampled_from([b'{"n": 1}', b"[1,\r\n2]", b' "a" ', b"null", b"1e400"]),
    "int16": st.binary(min_size=2, max_size=2),
    "int32": st.binary(min_size=4, max_size=4),
    "int64": st.binary(min_size=8, max_size=8),
    "float32": st.binary(min_size=4, max_size=4),
    "float64": st.binary(min_size=8, max_size=8),
    "boolean": st.sampled_from([b"\x00", b"\x01"]),
    "uuid": st.uuids().map(lambda uuid: str(uuid).upper().encode()),
    "list<string>": st.just(b"\x00\x00\x00\x00\x00\x00"),
}

Case = tuple[Codec, RowsPlan, list[bytes], list[bytes]]


@st.composite
def cases(draw: st.DrawFn, store_type: StoreType) -> Case:
    """A store, a request, and rows."""
    serdes = st.sampled_from((*SERDE_NAMES, "list<string>"))
    store_format = draw(st.sampled_from(FORMATS[store_type]))
    members: dict[str, Any] = {"key_serde": draw(serdes), "value_serde": draw(serdes)}
    if store_type is StoreType.WINDOW:
        members["retain_duplicates"] = draw(st.booleans())
    codec = codec_of(make_definition(type=store_type, format=store_format, **members))
    keys = WRITTEN[codec.key.name]
    values = WRITTEN[codec.value.name]
    if draw(st.integers(0, 4)) == 0:
        keys, values = keys | ANY_BYTES, values | ANY_BYTES
    records = st.builds(Record, values, st.integers(-(2**63), 2**63 - 1), HEADERS)
    count = draw(st.integers(1, 5)) * draw(st.sampled_from([1, 60]))  # Few, and many.
    some = draw(st.lists(st.tuples(keys, TIMES, TIMES, records), min_size=1, max_size=5))
    chosen = [some[number % len(some)] for number in range(count)]
    row_keys = [row_key(codec, key, *sorted((a, b))) for key, a, b, _ in chosen]
    rows = [encode_row(store_format, record) for *_, record in chosen]
    if draw(st.integers(0, 9)) == 0:
        damaged = draw(st.integers(0, count - 1))
        rows[damaged] = draw(ANY_BYTES)
        row_keys[damaged] = draw(ANY_BYTES)
    return codec, draw(plans(codec)), row_keys, rows


def row_key(codec: Codec, key: bytes, start: int, end: int) -> bytes:
    match codec.type:
        case StoreType.WINDOW:
            return encode_window_key(key, start, end % 2**31)
        case StoreType.SESSION:
            return encode_session_key(key, start, end)
        case StoreType.VERSIONED:
            return encode_version_key(key, start, STILL_VALID if end % 2 else end)
        case _:
            return key


@st.composite
def plans(draw: st.DrawFn, codec: Codec) -> RowsPlan:
    shapes = {BARE, codec.shape}
    if codec.shape.headers:
        is_timed = codec.type in (StoreType.WINDOW, StoreType.SESSION)
        shapes |= {FULL} if is_timed or codec.shape.timestamp else set()
    if codec.shape.timestamp or codec.type is StoreType.WINDOW:
        shapes.add(TIMESTAMPED)
    shape: Shape = draw(st.sampled_from(sorted(shapes, key=repr)))
    if codec.type is StoreType.KEY_VALUE:
        return ScanPlan(None, None, reverse=False, shape=shape)
    return TimedPlan(
        type=codec.type,
        key_from=None,
        key_to=None,
        earliest=0,
        latest=TIME_MAX,
        reverse=False,
        shape=shape,
        times=draw(st.sampled_from(Times)),
    )


def one_by_one(case: Case) -> list[bytes] | None:
    """The rows as JSON; None if one of them is damaged."""
    codec, plan, row_keys, rows = case
    write = make_writer(codec, plan)
    try:
        return [write(key, row) for key, row in zip(row_keys, rows, strict=True)]
    except MalformedBytesError:
        return None
