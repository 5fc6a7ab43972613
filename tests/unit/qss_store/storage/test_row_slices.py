"""The slices of a commit: complete, in order, of bounded size."""

import pyarrow as pa
import pytest

from qss_client.chunks.chunk import encode_slice
from qss_core.formats.values import Format
from qss_core.model import StoreType
from qss_store.runtime.settings import Settings
from qss_store.storage.commit_rows.row_slices import (
    PLACED_BYTES_MAX,
    SLICE_BYTES_MAX,
    slice_limits,
    store_slices,
)
from qss_store.storage.family_names import ColumnFamilies
from qss_store.storage.placement.placed_rows import StoreRows
from qss_store.storage.placement.row_families import row_placer_of
from qss_store.transactions.commit_plan import CommitPlan
from qss_testing.memory_engine import MemoryEngine
from qss_testing.pods.stores import make_definition

MINUTE = 60_000
PLAN = CommitPlan(
    payloads=(),
    default_timestamp_ms=0,
    data_generation=0,
    replaces=False,
    stream_time=12 * MINUTE,
    stream_time_before=-1,
    puts_before=0,
    changes={},
    records=0,
)


def payload(rows: int, value_bytes: int) -> bytes:
    """Rows with their numbers as values, over three segments of five minutes."""
    table = pa.table(
        {
            "key": pa.array([f"{number % 7}".encode() for number in range(rows)], pa.binary()),
            "value": pa.array(
                [str(number).encode().rjust(value_bytes) for number in range(rows)], pa.binary()
            ),
            "window_start": pa.array([number % 13 * MINUTE for number in range(rows)], pa.int64()),
        }
    )
    return bytes(encode_slice(0, table).data)


@pytest.mark.parametrize("store_type", [StoreType.KEY_VALUE, StoreType.WINDOW])
@pytest.mark.parametrize(("rows", "value_bytes"), [(12_001, 5), (700, 20_000), (3, 2_000_000)])
def test_slices_are_bounded_and_keep_the_order_of_equal_keys(
    store_type: StoreType, rows: int, value_bytes: int
) -> None:
    definition = make_definition(type=store_type, retention_ms=10 * MINUTE, format="Plain")
    families = ColumnFamilies.of(definition, 0)
    data = payload(rows, value_bytes)
    assert (len(data) > PLACED_BYTES_MAX) == (value_bytes > 5)
    placer = row_placer_of(definition, families, PLAN, MemoryEngine())
    limits = slice_limits(Settings(), is_indexed=False)
    slices = list(store_slices([data, data], Format.Plain, 0, placer, limits))
    seen: dict[tuple[str, bytes], list[int]] = {}
    for one in slices:
        assert one.late.expired == 0
        if not one.keys:
            continue  # It counts the rows that retention hides.
        parts = placer.split(one.keys, one.values, one.places)
        assert sum(len(part.keys) for part in parts) <= limits.rows
        size = sum(size_of(part) for part in parts)
        assert size <= SLICE_BYTES_MAX or [len(part.keys) for part in parts] == [1]
        for part in parts:
            for key, value in zip(part.keys, part.values, strict=True):
                assert value is not None
                seen.setdefault((part.family, key), []).append(int(value))
    assert sum(map(len, seen.values())) == 2 * rows
    for numbers in seen.values():
        half = len(numbers) // 2
        assert numbers[:half] == sorted(numbers[:half]) == numbers[half:]


def size_of(part: StoreRows) -> int:
    return sum(map(len, part.keys)) + sum(len(value or b"") for value in part.values)


@pytest.mark.parametrize(("setting", "rows_max"), [(7, 7), (1, 1), (0, 1)])
def test_a_slice_has_as_many_rows_as_the_setting_says_and_one_at_least(
    setting: int, rows_max: int
) -> None:
    settings = Settings(slice_rows_max=setting, indexed_slice_rows_max=2 * setting)
    families = ColumnFamilies.of(make_definition(format="Plain"), 0)
    placer = row_placer_of(make_definition(format="Plain"), families, PLAN, MemoryEngine())
    limits = slice_limits(settings, is_indexed=False)
    slices = list(store_slices([payload(20, 5)], Format.Plain, 0, placer, limits))
    assert max(len(one.keys) for one in slices) == rows_max
    assert sum(len(one.keys) for one in slices) == 20
    assert slice_limits(settings, is_indexed=True).rows == max(1, 2 * setting)
