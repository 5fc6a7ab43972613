"""The CRD's rules (x-kubernetes-validations), evaluated as the API server evaluates them."""

import ipaddress
import re
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from typing import Any

import celpy
from celpy import celtypes
from celpy.adapter import json_to_cel
from celpy.evaluation import CELEvalError

from qss_core.quantities import kubernetes_amount
from qss_operator.resources.crd import Json, Schema

_ABSENT = object()
_RANGE = re.compile(r"[0-9A-Fa-f:.]+/(0|[1-9][0-9]{0,2})")


class MapKey(str):
    """The key of a map in a path: the API server's messages have it in brackets."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class BrokenRule:
    """A rule that a value breaks, and the path of the value."""

    path: tuple[str | int, ...]
    message: str
    value: Json = None


@dataclass(frozen=True, slots=True)
class Quantity:
    """A Kubernetes quantity as a value of CEL."""

    amount: Decimal


def broken_rules(resource: Json, old: Json | None, schema: Schema) -> list[BrokenRule]:
    """The rules that the resource breaks; with an old resource also rules about changes."""
    return list(_walk(schema, resource, _ABSENT if old is None else old, ()))


def _walk(
    schema: Schema, value: Json, old: Any, path: tuple[str | int, ...]
) -> Iterator[BrokenRule]:
    for rule in schema.get("x-kubernetes-validations", ()):
        is_transition = re.search(r"\boldSelf\b", rule["rule"]) is not None
        if is_transition and old is _ABSENT:
            continue
        if not _holds(rule["rule"], value, old if is_transition else _ABSENT):
            inner = tuple(part for part in rule.get("fieldPath", "").split(".") if part)
            # A value that may not change is not wrong in itself.
            shown = None if inner or is_transition else value
            yield BrokenRule((*path, *inner), rule["message"], shown)
    if isinstance(value, dict):
        members, rest = schema.get("properties", {}), schema.get("additionalProperties")
        for name, member in value.items():
            inner = members.get(name, rest)
            if isinstance(inner, dict):
                old_member = old.get(name, _ABSENT) if isinstance(old, dict) else _ABSENT
                place = name if name in members else MapKey(name)
                yield from _walk(inner, member, old_member, (*path, place))
    elif isinstance(value, list) and "items" in schema:
        # Items have no old value: the schema has no transition rule inside a list.
        for index, item in enumerate(value):
            yield from _walk(schema["items"], item, _ABSENT, (*path, index))


def _holds(rule: str, value: Json, old: Any) -> bool:
    names = {"self": json_to_cel(value)}
    if old is not _ABSENT:
        names["oldSelf"] = json_to_cel(old)
    try:
        return bool(_program(rule).evaluate(names))
    except CELEvalError:
        # The API server, too, refuses a value if a rule fails to evaluate.
        return False


@cache
def _environment() -> celpy.Environment:
    return celpy.Environment()


@cache
def _program(rule: str) -> celpy.Runner:
    environment = _environment()
    return environment.program(environment.compile(rule), functions=_FUNCTIONS)


def _quantity(text: celtypes.StringType) -> Any:
    amount = kubernetes_amount(str(text))
    return CELEvalError(f"{text} is no quantity") if amount is None else Quantity(amount)


def _is_quantity(text: celtypes.StringType) -> celtypes.BoolType:
    return celtypes.BoolType(kubernetes_amount(str(text)) is not None)


def _compare(left: Quantity, right: Quantity) -> celtypes.IntType:
    return celtypes.IntType((left.amount > right.amount) - (left.amount < right.amount))


def _is_greater(left: Quantity, right: Quantity) -> celtypes.BoolType:
    return celtypes.BoolType(left.amount > right.amount)


def _is_less(left: Quantity, right: Quantity) -> celtypes.BoolType:
    return celtypes.BoolType(left.amount < right.amount)


@dataclass(frozen=True, slots=True)
class AddressRange:
    """A range of addresses as a value of CEL."""

    network: ipaddress.IPv4Network | ipaddress.IPv6Network


def _range_of(text: str) -> AddressRange | None:
    """The range, which needs a length and no zone; else None, as in the API server."""
    if _RANGE.fullmatch(text) is None:
        return None
    try:
        network = ipaddress.ip_network(text, strict=False)
    except ValueError:
        return None
    address = network.network_address
    is_mapped = isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None
    return None if is_mapped else AddressRange(network)


def _is_cidr(text: celtypes.StringType) -> celtypes.BoolType:
    return celtypes.BoolType(_range_of(str(text)) is not None)


def _cidr(text: celtypes.StringType) -> Any:
    return _range_of(str(text)) or CELEvalError(f"{text} is no range of addresses")


def _contains_cidr(outer: AddressRange, text: celtypes.StringType) -> Any:
    inner = _range_of(str(text))
    if inner is None:
        return CELEvalError(f"{text} is no range of addresses")
    if isinstance(outer.network, ipaddress.IPv4Network):
        held = isinstance(inner.network, ipaddress.IPv4Network) and inner.network.subnet_of(
            outer.network
        )
    else:
        held = isinstance(inner.network, ipaddress.IPv6Network) and inner.network.subnet_of(
            outer.network
        )
    return celtypes.BoolType(held)


_FUNCTIONS: Any = {
    "isCIDR": _is_cidr,
    "cidr": _cidr,
    "containsCIDR": _contains_cidr,
    "quantity": _quantity,
    "isQuantity": _is_quantity,
    "compareTo": _compare,
    "isGreaterThan": _is_greater,
    "isLessThan": _is_less,
}
