"""The columns that `--value` computes from those of the state."""

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from qss_core.errors import MalformedRequestError
from qss_spark.mirroring.rows.computed_values import ComputedValues

STATE = pa.struct(
    [
        ("count", pa.int64()),
        ("sum", pa.int64()),
        ("sum_1", pa.float64()),
        ("max(m)", pa.decimal128(12, 3)),
        ("small", pa.int16()),
        ("k", pa.string()),
        ("from", pa.float32()),
    ]
)
ROW: dict[str, Any] = {
    "count": 4,
    "sum": 10,
    "sum_1": 2.5,
    "max(m)": Decimal("1.125"),
    "small": 3,
    "k": "text",
    "from": 0.5,
}


def computed(*texts: str, rows: Sequence[dict[str, Any]] = (ROW,)) -> list[dict[str, Any]]:
    found = ComputedValues(texts).of(pa.array(rows, STATE))
    assert found.type == ComputedValues(texts).type_of(STATE)
    values: list[dict[str, Any]] = found.to_pylist()
    return values


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("sum/count", 2.5),
        ("sum - count * 2", 2),
        ("(sum-count)*2", 12),
        ("-count + +1", -3),
        ("sum_1 / (count - 4)", None),
        ("0.0 / sum_1", 0.0),
        ("`max(m)` * 2", 2.25),
        ("`max(m)`", Decimal("1.125")),
        ("small*small", 9),
        ("`from`+sum", 10.5),
        ("k", "text"),
        ("7", 7),
        ("1 / 4", 0.25),
        ("sum * 1000000000000000000", None),
        ("sum * 1000000000000000000 / 4", None),
        ("9223372036854775807 - 1", 2**63 - 2),
        ("9223372036854775807 / 1", 2.0**63),
    ],
)
def test_an_expression_has_its_value(text: str, value: Any) -> None:
    (found,) = computed(f"x={text}")
    assert found == {"x": value}
    assert type(found["x"]) is type(value)


def test_the_columns_are_those_that_are_named_in_their_order() -> None:
    assert computed("mean = sum/count", "n=count") == [{"mean": 2.5, "n": 4}]


def test_a_null_or_a_divisor_of_zero_makes_null_of_its_own_row() -> None:
    rows = [ROW, {**ROW, "count": None}, {**ROW, "count": 0}, {**ROW, "sum": None}]
    assert [one["x"] for one in computed("x=sum/count", rows=rows)] == [2.5, None, None, None]
    large = [ROW, {**ROW, "sum": 2**62}, {**ROW, "sum": None}]
    assert [one["x"] for one in computed("x=sum*4-count", rows=large)] == [36, None, None]


def test_a_slice_of_values_is_computed_from_its_own_rows() -> None:
    rows = pa.array([{**ROW, "sum": one} for one in range(5)], STATE)
    assert ComputedValues(["x=sum+1"]).of(rows.slice(2, 2)).to_pylist() == [{"x": 3}, {"x": 4}]


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        (["mean"], "a value is NAME=EXPRESSION, with columns, numbers"),
        (["=sum"], "a value is NAME"),
        (["x= "], "a value is NAME"),
        (["x=sum", "x=count"], "the value x is there twice"),
        (["x=sum +"], "the value x is no expression: 'sum \\+', but"),
        (["x=sum; count"], "no expression"),
        (["x=" + "(" * 300 + "sum" + ")" * 300], "no expression"),
        (["x=sum\0"], "no expression"),
        (["x=1e400"], "a number that is too large for a double"),
        (["x=" + "-" * 60 + "sum"], "nested more than 50 deep"),
        (["x=" + "sum+" * 400 + "sum"], "longer than 1000"),
        (["x=sum ** 2"], "has sum \\*\\* 2: it is NAME"),
        (["x=sum % 2"], "has sum % 2"),
        (["x=sum // 2"], "has sum // 2"),
        (["x=abs(sum)"], r"has abs\(sum\).* are written by StoreSink"),
        (["x=sum.real"], r"has sum\.real"),
        (["x=__import__('os')"], "has __import__"),
        (["x=[sum][0]"], r"has \[sum\]\[0\]"),
        (["x='text'"], "has 'text'"),
        (["x=True"], "has True"),
        (["x=2j"], "has 2j"),
        (["x=sum if count else 0"], "has sum if"),
        (["x=(y := sum)"], "has \\(y := sum\\)"),
        (["x=18446744073709551616"], "needs more than 64 bits"),
        (["x=`a b`(1)"], r"has `a b`\(1\)"),
    ],
)
def test_what_is_no_expression_is_refused(texts: list[str], said: str) -> None:
    with pytest.raises(MalformedRequestError, match=said):
        ComputedValues(texts)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("mean=sum_2/count", "the value mean has the column sum_2; the columns of the state are c"),
        ("mean=avg", r"columns of the state are .*\. Results that these do not give .* StoreSink"),
        ("x=`max(n)`", r"has the column max\(n\); .* are count, sum, sum_1, max\(m\), small"),
        ("x=k+1", "the value x computes with k, which has the type string"),
    ],
)
def test_columns_that_are_not_there_or_no_numbers_are_refused(text: str, said: str) -> None:
    with pytest.raises(MalformedRequestError, match=said):
        ComputedValues([text]).type_of(STATE)


def test_lists_have_no_columns() -> None:
    with pytest.raises(MalformedRequestError, match="are lists"):
        ComputedValues(["x=sum"]).type_of(pa.list_(STATE))


def test_other_expressions_have_another_digest() -> None:
    digests = {ComputedValues(texts).digest for texts in (["a=b"], ["a=b+1"], ["b=a"])}
    assert len(digests) == 3
