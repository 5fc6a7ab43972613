"""Many rows at once are encoded byte for byte like single rows."""

from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qss_core.errors import MalformedBytesError, MalformedRequestError
from qss_core.formats.timed_keys import (
    TIME_MAX,
)
from qss_core.model import StoreType
from qss_core.times import Times
from qss_store.http.query.arrow import ArrowEncoder
from qss_store.reads.codec import codec_of
from qss_store.reads.encode.csv_encoder import CsvRows
from qss_store.reads.encode.json import JsonRows, NdjsonRows
from qss_store.reads.plans.times import TimedPlan
from qss_testing.any_rows import FORMATS, cases, one_by_one
from qss_testing.pods.stores import make_definition


@pytest.mark.parametrize("store_type", list(FORMATS))
@settings(deadline=None)
@given(data=st.data())
def test_json_of_many_rows_is_that_of_each(store_type: StoreType, data: st.DataObject) -> None:
    case = codec, plan, row_keys, rows = data.draw(cases(store_type))
    lines = one_by_one(case)
    for encoder in (JsonRows(codec, plan), NdjsonRows(codec, plan), CsvRows(codec, plan)):
        if lines is None:
            with pytest.raises(MalformedBytesError):
                encoder.of_rows(row_keys, rows)
        else:
            assert encoder.of_rows(row_keys, rows) == encoder.of_lines(lines)


@pytest.mark.parametrize("store_type", list(FORMATS))
@settings(deadline=None)
@given(data=st.data())
def test_columns_of_many_rows_are_those_of_their_json(
    store_type: StoreType, data: st.DataObject
) -> None:
    case = codec, plan, row_keys, rows = data.draw(cases(store_type))
    if isinstance(plan, TimedPlan):
        plan = replace(plan, times=Times.MILLIS)
        case = codec, plan, row_keys, rows
    lines = one_by_one(case)
    if lines is None:
        with pytest.raises(MalformedBytesError):
            ArrowEncoder(codec, plan).of_rows(row_keys, rows)
        return
    direct, by_json = ArrowEncoder(codec, plan), ArrowEncoder(codec, plan)
    found = direct.of_rows(row_keys, rows) + direct.end()
    expected = by_json.of_lines(lines) + by_json.end()
    assert read(found).equals(read(expected)) or same_but_nan(found, expected)
    assert read(found).schema == read(expected).schema


def read(data: bytes) -> pa.Table:
    return pa.ipc.open_stream(data).read_all()


def same_but_nan(one: bytes, other: bytes) -> bool:
    """Equality by text, because Arrow holds NaN unequal to itself."""
    return repr(read(one).to_pylist()) == repr(read(other).to_pylist())


def test_times_as_texts_are_no_columns() -> None:
    codec = codec_of(make_definition(type=StoreType.WINDOW))
    plan = TimedPlan(
        type=StoreType.WINDOW,
        key_from=None,
        key_to=None,
        earliest=0,
        latest=TIME_MAX,
        reverse=False,
        shape=codec.shape,
        times=Times.RFC3339,
    )
    with pytest.raises(MalformedRequestError):
        ArrowEncoder(codec, plan)
