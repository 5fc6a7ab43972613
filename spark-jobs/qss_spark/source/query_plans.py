"""Reads filters from Spark's query plans, and puts another source under them, by Py4J.

Spark has no public way to either. Plans are Scala objects: their class names tell them apart.
"""

import re
from collections.abc import Iterator
from typing import Any

from qss_client.chunks.chunk_schema import SESSION_END, SESSION_START, WINDOW_START
from qss_spark.options import KEYS_MAX
from qss_spark.source.pushed_filters import Predicate

_COMPARISONS = (
    *("EqualTo", "EqualNullSafe", "LessThan", "LessThanOrEqual"),
    *("GreaterThan", "GreaterThanOrEqual", "StringStartsWith"),
)
_TIMES = (WINDOW_START, SESSION_START, SESSION_END)
# Texts that Spark casts to a time anew in each query.
_DAYS = re.compile(r"CAST\('\s*(?:now|today|tomorrow|yesterday)\b", re.IGNORECASE)


def with_source(plan: Any, source: Any) -> Any | None:
    """The plan of filters over another source, whose columns keep the ids of the plan's columns.

    So columns of earlier frames, as in `frame.filter(...).select(frame.key)`, are found. None for a
    plan that has other steps.
    """
    kind = plan.getClass().getSimpleName()
    if kind == "Filter":
        child = with_source(plan.child(), source)
        return None if child is None else plan.copy(plan.condition(), child)
    if kind != "DataSourceV2Relation" or source.getClass().getSimpleName() != kind:
        return None
    members = [
        plan.output() if source.productElementName(place) == "output" else one
        for place, one in enumerate(_members(source))
    ]
    return source.copy(*members)


def is_the_same_later(plan: Any, jvm: Any) -> bool:
    """Whether the filters of an analyzed plan mean the same in each later query on its frame.

    A filter with `now()` or 'today' lets other rows through an hour later.
    """
    current = jvm.org.apache.spark.sql.catalyst.trees.TreePattern.CURRENT_LIKE()
    if plan.containsPattern(current):
        return False
    while plan.getClass().getSimpleName() == "Filter":
        if _DAYS.search(plan.condition().sql()):
            return False
        plan = plan.child()
    return True


def _members(node: Any) -> list[Any]:
    return [node.productElement(place) for place in range(node.productArity())]


def predicates_of(plan: Any, jvm: Any) -> Iterator[Predicate]:
    """The parts of the filter at the top of an optimized plan that Spark has a simple form of."""
    if plan.getClass().getSimpleName() != "Filter":
        return
    if not plan.child().getClass().getSimpleName().startswith("DataSourceV2"):
        return
    for part in _parts(plan.condition()):
        predicate = _predicate(part, jvm)
        if predicate is not None:
            yield predicate


def _parts(condition: Any) -> Iterator[Any]:
    if condition.getClass().getSimpleName() == "And":
        yield from _parts(condition.left())
        yield from _parts(condition.right())
    else:
        yield condition


def _predicate(condition: Any, jvm: Any) -> Predicate | None:
    """The predicate of a condition that compares a column with values; None for another one."""
    datasources = jvm.org.apache.spark.sql.execution.datasources
    strategy = getattr(getattr(datasources, "DataSourceStrategy$"), "MODULE$")
    translated = strategy.translateFilter(condition, False)  # noqa: FBT003 Of nested columns.
    return _simple(translated.get()) if translated.isDefined() else None


def _simple(found: Any) -> Predicate | None:
    name = str(found.getClass().getSimpleName())
    if name == "Or":
        return _either(_simple(found.left()), _simple(found.right()))
    if name == "In":
        values = found.values()
        value: Any = tuple(values) if len(values) <= KEYS_MAX else None
    else:
        value = found.value() if name in _COMPARISONS else None
    if value is None:
        return None
    column = str(found.attribute())
    if column in _TIMES:
        value = _milliseconds(value)
        return None if value is None else Predicate(name, column, value)
    return Predicate(name, column, value) if column == "key" else None


def _either(one: Predicate | None, other: Predicate | None) -> Predicate | None:
    """The predicate of two of which one holds, where both name keys one by one."""
    if one is None or other is None or {one.column, other.column} != {"key"}:
        return None
    keys: list[Any] = []
    for side in (one, other):
        if side.name not in ("EqualTo", "EqualNullSafe", "In"):
            return None
        keys.extend(side.value if side.name == "In" else [side.value])
    return Predicate("In", "key", tuple(keys))


def _milliseconds(value: Any) -> int | None:
    """A time as milliseconds since 1970, rounded down; None for a text that is no time."""
    if isinstance(value, int):
        return value  # The column of a schema with longs.
    kind = value.getClass().getName() if hasattr(value, "getClass") else ""
    if kind == "java.sql.Timestamp":
        return int(value.getTime())
    return int(value.toEpochMilli()) if kind == "java.time.Instant" else None
