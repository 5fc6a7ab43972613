"""Rows of several partitions are merged in the order of keys."""

from typing import Any

import msgspec
import pytest

from qss_client import Row
from qss_client.reads.key_order import merge_by_key
from qss_core.serdes.registry import serde_of


@pytest.mark.parametrize(
    ("serde", "keys"),
    [
        ("string", ["a", "b", "c", "ä"]),
        ("int64", [0, 5, 70, -3, -1]),
        ("json", [{"a": 1}, {"b": 0}]),
        ("bytes", ["AA==", "/w=="]),
    ],
)
def test_keys_are_in_the_order_of_their_bytes(serde: str, keys: list[Any]) -> None:
    for raw in (False, True):
        rows = [Row(msgspec.Raw(msgspec.json.encode(key)) if raw else key, 1) for key in keys]
        parts = [rows[::2], rows[1::2]]
        assert list(merge_by_key(parts, serde_of(serde), reverse=False)) == rows
        backward = [part[::-1] for part in parts]
        assert list(merge_by_key(backward, serde_of(serde), reverse=True)) == rows[::-1]
