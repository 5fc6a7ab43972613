"""Prints a field of the resource from the schema of the CRD, as `kubectl explain` does."""

import json
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from qss_core.errors import MalformedRequestError

Schema = Mapping[str, Any]

_HEAD = "GROUP:      queryablestate.dev\nKIND:       QueryableStateStore\nVERSION:    v1alpha1\n"
_INDENT = "    "  # Of the texts.
_TYPES = {"object": "Object", "array": "Array"}


def text_of_field(
    schema: Schema, path: Sequence[str], columns: int, *, recursive: bool = False
) -> str:
    """The text of the field at `path`; recursive: with all fields below it, without descriptions.

    Raises MalformedRequestError for a field that the resource does not have.
    """
    field, is_required = _field_at(schema, path)
    lines = [_HEAD]
    if path:
        lines += [f"FIELD: {path[-1]} <{_type_of(field)}>{_required(is_required)}", ""]
    lines += ["DESCRIPTION:", *_wrapped(field.get("description", "-"), columns)]
    if facts := list(_facts(field)):
        lines += ["", *(line for fact in facts for line in _wrapped(fact, columns))]
    if rules := _rules(field):
        lines += ["", "RULES:", *(line for rule in rules for line in _wrapped(rule, columns))]
    if _members(field):
        lines += ["", "FIELDS:"]
        lines += _tree(field, 2) if recursive else list(_members_told(field, columns))
    return "\n".join(lines).rstrip()


def _field_at(schema: Schema, path: Sequence[str]) -> tuple[Schema, bool]:
    field, is_required = schema, False
    for depth, name in enumerate(path):
        members = _members(field)
        if name not in members:
            where = ".".join(path[:depth]) or "the resource"
            there = f"it has {', '.join(members)}" if members else "it has no fields"
            raise MalformedRequestError(f"{where} has no field {name!r}: {there}")
        is_required = name in _inner(field).get("required", ())
        field = members[name]
    return field, is_required


def _inner(field: Schema) -> Schema:
    """The schema of a field's values: of the elements of a list or a map, else of the field."""
    while True:
        values = field.get("items") or field.get("additionalProperties")
        if not isinstance(values, Mapping):
            return field
        field = values


def _members(field: Schema) -> Mapping[str, Schema]:
    members: Mapping[str, Schema] = _inner(field).get("properties", {})
    return members


def _type_of(field: Schema) -> str:
    if field.get("x-kubernetes-int-or-string"):
        return "IntOrString"
    if "items" in field:
        return f"[]{_type_of(field['items'])}"
    if isinstance(field.get("additionalProperties"), Mapping):
        return f"map[string]{_type_of(field['additionalProperties'])}"
    name: str = field.get("type", "any")
    return _TYPES.get(name, name)


def _facts(field: Schema) -> Iterator[str]:
    """The values that a field may have, in short sentences."""
    if "default" in field:
        default = field["default"]
        yield f"Default: {default if isinstance(default, str) else json.dumps(default)}"
    if "enum" in field:
        yield f"Allowed: {', '.join(map(str, field['enum']))}"
    limits = [
        f"{word} {field[name]}"
        for name, word in (("minimum", "at least"), ("maximum", "at most"))
        if name in field
    ]
    if limits:
        yield f"Limits: {', '.join(limits)}"
    for name, unit in (("maxLength", "characters"), ("maxItems", "items")):
        if name in field:
            yield f"Limits: at most {field[name]} {unit}"


def _rules(field: Schema) -> list[str]:
    """The rules of the field, and of the elements of a list or a map."""
    inner = _inner(field)
    return [
        f"* {' '.join(rule['message'].split())}"
        for one in ((field,) if inner is field else (field, inner))
        for rule in one.get("x-kubernetes-validations", ())
        if "message" in rule
    ]


def _members_told(field: Schema, columns: int) -> Iterator[str]:
    required = _inner(field).get("required", ())
    for name, member in _members(field).items():
        yield f"  {name}\t<{_type_of(member)}>{_required(name in required)}"
        told = (member.get("description", ""), *_short(member))
        yield from _wrapped(" ".join(told), columns)
        yield ""


def _short(member: Schema) -> Iterator[str]:
    yield from (f"{fact}." for fact in _facts(member) if not fact.startswith("Limits"))


def _tree(field: Schema, indent: int) -> list[str]:
    required = _inner(field).get("required", ())
    return [
        line
        for name, member in _members(field).items()
        for line in (
            f"{' ' * indent}{name}\t<{_type_of(member)}>{_required(name in required)}",
            *_tree(member, indent + 2),
        )
    ]


def _required(is_required: bool) -> str:  # noqa: FBT001 the only argument.
    return " -required-" if is_required else ""


def _wrapped(text: str, columns: int) -> list[str]:
    return textwrap.wrap(
        text,
        columns,
        initial_indent=_INDENT,
        subsequent_indent=_INDENT,
        break_long_words=False,
        break_on_hyphens=False,
    )
