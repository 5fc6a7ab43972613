"""Computes the columns of a store's values from the state's columns, as `--value` names them. Pure.

`mean=sum_1/count_1` is the name of a column and its expression: columns and numbers with + - * /
and parentheses. A column whose name is no plain word stands in backticks, as in Spark's SQL. Whole
numbers stay whole but for `/`; decimals are computed as doubles. The result is null where a column
is null, where a divisor is 0, and where a whole number needs more than 64 bits.
"""

import ast
import hashlib
import math
import operator
import re
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from qss_core.errors import MalformedRequestError
from qss_spark.mirroring.rows.opaque_buffers import HINT

_QUOTED = re.compile(r"`([^`]+)`")
_TEXT_MAX, _DEPTH_MAX = 1000, 50
_LONG, _DOUBLE = pa.int64(), pa.float64()
_LONG_MIN, _LONG_MAX = -(2**63), 2**63 - 1
_Operation = tuple[Callable[..., pa.Array], Callable[..., pa.Array], Callable[[int, int], int]]
# Of doubles, of whole numbers, and of whole numbers one by one.
_OPERATIONS: dict[type[ast.operator], _Operation] = {
    ast.Add: (pc.add, pc.add_checked, operator.add),
    ast.Sub: (pc.subtract, pc.subtract_checked, operator.sub),
    ast.Mult: (pc.multiply, pc.multiply_checked, operator.mul),
}
_RESULTS = "Results that these do not give are written by StoreSink"
_GRAMMAR = "NAME=EXPRESSION, with columns, numbers, + - * / and parentheses"


class ComputedValues:
    """The columns of a store's values, each with its expression."""

    def __init__(self, texts: Sequence[str], opaque: Sequence[str] = ()) -> None:
        """Reads the expressions. Raises MalformedRequestError, also for columns that are opaque."""
        self._columns: dict[str, _Expression] = {}
        for text in texts:
            name, _, expression = text.partition("=")
            if not (name := name.strip()) or not expression.strip():
                raise MalformedRequestError(f"a value is {_GRAMMAR}, not {text[:80]!r}")
            if name in self._columns:
                raise MalformedRequestError(f"the value {name} is there twice: name it once")
            self._columns[name] = _Expression(name, expression.strip(), opaque)
        shown = "\0".join(f"{name}={one.text}" for name, one in self._columns.items())
        self.digest = hashlib.sha256(shown.encode()).hexdigest()[:8]

    def type_of(self, value: pa.DataType) -> pa.StructType:
        """The type of the values. Raises MalformedRequestError for columns that are not there."""
        if not pa.types.is_struct(value):
            raise MalformedRequestError(
                "the values of this state are lists, which have no columns to compute with"
            )
        return self.of(pa.array([], value)).type

    def of(self, values: pa.StructArray) -> pa.StructArray:
        """Computes the values of a store from the values of the state."""
        columns = {one.name: values.field(number) for number, one in enumerate(values.type)}
        found = [one.of(columns, len(values)) for one in self._columns.values()]
        return pa.StructArray.from_arrays(found, names=list(self._columns))


class _Expression:
    """An expression that computes one column."""

    def __init__(self, name: str, text: str, opaque: Sequence[str]) -> None:
        self.text = text
        self._name, self._opaque = name, opaque
        self._quoted: dict[str, str] = {}  # Words that stand for names in backticks.
        if len(text) > _TEXT_MAX:
            raise self._refused(f"is longer than {_TEXT_MAX} characters")
        try:
            self._root = ast.parse(_QUOTED.sub(self._word, text), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise self._refused(f"is no expression: {text[:80]!r}, but {_GRAMMAR}") from error
        self._check(self._root, 0)

    def of(self, columns: dict[str, pa.Array], rows: int) -> pa.Array:
        """The column. Raises MalformedRequestError for columns that are not there or no numbers."""
        return self._computed(self._root, columns, rows)

    def _word(self, found: re.Match[str]) -> str:
        word = f"quoted_{len(self._quoted)}_"
        self._quoted[word] = found[1]
        return word

    def _check(self, node: ast.expr, depth: int) -> None:
        if depth > _DEPTH_MAX:
            raise self._refused(f"is nested more than {_DEPTH_MAX} deep")
        match node:
            case ast.Name(id=word):
                if (column := self._quoted.get(word, word)) in self._opaque:
                    raise self._refused(f"has the column {column}, which is opaque. {HINT}")
            case ast.Constant(value=number) if type(number) in (int, float):
                if isinstance(number, int) and number > _LONG_MAX:
                    raise self._refused(f"has the number {number}, which needs more than 64 bits")
                if number == math.inf:
                    raise self._refused("has a number that is too large for a double")
            case ast.UnaryOp(op=ast.USub() | ast.UAdd(), operand=operand):
                self._check(operand, depth + 1)
            case ast.BinOp(left=left, op=op, right=right) if type(op) in (*_OPERATIONS, ast.Div):
                self._check(left, depth + 1)
                self._check(right, depth + 1)
            case _:
                raise self._refused(f"has {self._shown(node)}: it is {_GRAMMAR}. {_RESULTS}")

    def _computed(self, node: ast.expr, columns: dict[str, pa.Array], rows: int) -> pa.Array:
        match node:
            case ast.Name(id=word):
                return self._column(word, columns)
            case ast.Constant(value=number):
                return pa.repeat(pa.scalar(number), rows)
            case ast.UnaryOp(op=op, operand=operand):
                zero = ast.Constant(value=0)
                sign = ast.Sub() if isinstance(op, ast.USub) else ast.Add()
                return self._computed(ast.BinOp(zero, sign, operand), columns, rows)
            case ast.BinOp(left=left, op=op, right=right):
                both = [self._number(one, columns, rows) for one in (left, right)]
                return _combined(op, *both)
        raise AssertionError(f"the node {node!r} was checked")

    def _number(self, node: ast.expr, columns: dict[str, pa.Array], rows: int) -> pa.Array:
        """The type of a number: whole or double."""
        found = self._computed(node, columns, rows)
        if pa.types.is_integer(found.type):
            return found.cast(_LONG)
        if not (pa.types.is_floating(found.type) or pa.types.is_decimal(found.type)):
            raise self._refused(
                f"computes with {self._shown(node)}, which has the type {found.type}"
            )
        return found.cast(_DOUBLE)

    def _column(self, word: str, columns: dict[str, pa.Array]) -> pa.Array:
        name = self._quoted.get(word, word)
        if name not in columns:
            there = ", ".join(columns) or "none"
            raise self._refused(
                f"has the column {name}; the columns of the state are {there}. {_RESULTS}"
            )
        return columns[name]

    def _shown(self, node: ast.expr) -> str:
        """The text of a part, with the names in backticks."""
        text = ast.unparse(node)
        for word, name in self._quoted.items():
            text = text.replace(word, f"`{name}`")
        return text[:80]

    def _refused(self, why: str) -> MalformedRequestError:
        return MalformedRequestError(f"the value {self._name} {why}")


def _combined(op: ast.operator, left: pa.Array, right: pa.Array) -> pa.Array:
    """Two columns of numbers under one operation."""
    if isinstance(op, ast.Div):
        divisor = right.cast(_DOUBLE, safe=False)
        divisor = pc.if_else(pc.equal(divisor, 0.0), pa.scalar(None, _DOUBLE), divisor)
        return pc.divide(left.cast(_DOUBLE, safe=False), divisor)
    of_doubles, of_longs, of_two = _OPERATIONS[type(op)]
    if left.type == right.type == _LONG:
        try:
            return of_longs(left, right)
        except pa.ArrowInvalid:  # A number is too large.
            return _one_by_one(of_two, left, right)
    return of_doubles(left.cast(_DOUBLE, safe=False), right.cast(_DOUBLE, safe=False))


def _one_by_one(operation: Callable[[int, int], int], left: pa.Array, right: pa.Array) -> pa.Array:
    """The results that have 64 bits; the others are null."""

    def one(first: Any, second: Any) -> int | None:
        if first is None or second is None:
            return None
        found = operation(first, second)
        return found if _LONG_MIN <= found <= _LONG_MAX else None

    pairs = zip(left.to_pylist(), right.to_pylist(), strict=True)
    return pa.array([one(first, second) for first, second in pairs], _LONG)
