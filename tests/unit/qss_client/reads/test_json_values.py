"""The Python values for the JSON of an answer."""

from decimal import Decimal
from typing import Any

import msgspec
import pytest

from qss_client.reads.json_values import JsonReader, read_decimals, read_json, read_raw, reader_of
from qss_client.reads.responses import read_query_answer, row_of
from qss_core.errors import MalformedRequestError, StoreError

EXACT = b'{"amount":12345678901234567890.123456789,"far":1e400,"price":1.10,"text":"\\u00e9"}'
ROW = b'{"key":1.50,"value":' + EXACT + b',"timestamp":7,"headers":[{"key":"h","value":null}]}'
READERS: list[JsonReader] = [read_json, read_decimals, read_raw]


def test_decimals_are_exact() -> None:
    row = row_of(read_decimals(ROW))
    assert row.value["amount"] == Decimal("12345678901234567890.123456789")
    assert row.value["far"] == Decimal("1e400")
    assert str(row.value["price"]) == "1.10"
    assert (row.key, row.timestamp) == (Decimal("1.50"), 7)


def test_raw_keys_and_values_are_the_bytes_that_came() -> None:
    row = row_of(read_raw(ROW))
    assert (bytes(row.key), bytes(row.value)) == (b"1.50", EXACT)
    assert (row.timestamp, row.headers) == (7, (("h", None),))


@pytest.mark.parametrize(
    ("text", "result"),
    [
        (b"3", 3),
        (b"null", None),
        (b"1.10", b"1.10"),
        (b'{"total":1.10}', b'{"total":1.10}'),
        (b"[1.10,2]", [b"1.10", 2]),
        (b'[{"key":"a","value":1.10}]', [{"key": b'"a"', "value": b"1.10"}]),
    ],
)
def test_raw_results_of_queries_are_rows_counts_or_bytes(text: bytes, result: Any) -> None:
    body = b'{"partitionResults":{"0":{"result":' + text + b'}},"position":{},"cursor":null}'
    found = read_query_answer(body, read=read_raw).partition_results[0].result
    assert plain(found) == result


def plain(value: Any) -> Any:
    """The value with bytes in place of Raw, which compares by identity."""
    if isinstance(value, msgspec.Raw):
        return bytes(value)
    if isinstance(value, list):
        return [plain(one) for one in value]
    return {name: plain(one) for name, one in value.items()} if isinstance(value, dict) else value


@pytest.mark.parametrize("read", READERS)
def test_an_answer_that_is_no_json_is_told(read: JsonReader) -> None:
    with pytest.raises(StoreError, match="the answer is no JSON"):
        read(b"<html>")


@pytest.mark.parametrize("read", READERS)
def test_an_answer_that_is_too_deep_is_told(read: JsonReader) -> None:
    with pytest.raises(StoreError, match="too deep"):
        read(b'{"key":1,"value":' + b"[" * 100_000 + b"]" * 100_000 + b"}")


def test_a_number_that_python_does_not_read_is_told_and_a_decimal_has_it() -> None:
    digits = "7" * 5000
    body = b'{"key":"a","value":' + digits.encode() + b"}"
    with pytest.raises(StoreError, match="more than 4300 digits: a client with decimal=True"):
        read_json(body)
    assert read_decimals(body)["value"] == Decimal(digits)
    assert bytes(read_raw(body)["value"]) == digits.encode()


def test_a_client_reads_in_one_way() -> None:
    assert reader_of(decimal=False, raw=False) is read_json
    assert reader_of(decimal=True, raw=False) is read_decimals
    assert reader_of(decimal=False, raw=True) is read_raw
    with pytest.raises(MalformedRequestError, match="decimal and raw: give one of them"):
        reader_of(decimal=True, raw=True)
