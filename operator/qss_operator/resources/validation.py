"""Checks a resource against the CRD file, and words its problems for a person."""

import difflib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from qss_core.serdes.registry import SERDE_NAMES
from qss_operator.errors import InvalidResourceError
from qss_operator.resources.cel import MapKey, broken_rules
from qss_operator.resources.crd import (
    API_VERSION,
    KIND,
    Json,
    Schema,
    canonical,
    json_schema,
    resource_schema,
    with_defaults,
)
from qss_operator.resources.json_schemas import Draft202012Validator, ValidationError

_VALUE_CHARS_MAX = 80
_PROBLEMS_MAX = 20
_SERDE_NAMES = {
    **dict.fromkeys(("short", "smallint"), "int16"),
    **dict.fromkeys(("int", "integer"), "int32"),
    **dict.fromkeys(("long", "bigint"), "int64"),
    **dict.fromkeys(("float", "real"), "float32"),
    "double": "float64",
    "bool": "boolean",
    **dict.fromkeys(("str", "text", "utf8", "varchar"), "string"),
    **dict.fromkeys(("binary", "bytearray", "blob"), "bytes"),
}
_METADATA: Schema = {
    "type": "object",
    "required": ["name"],
    "additionalProperties": False,
    "properties": {
        **{name: {"type": "string"} for name in ("name", "namespace", "uid", "creationTimestamp")},
        "generation": {"type": "integer"},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "annotations": {"type": "object", "additionalProperties": {"type": "string"}},
    },
}


@dataclass(frozen=True, slots=True, order=True)
class FieldProblem:
    """One problem of a field."""

    path: str
    message: str
    value: str = ""  # The field's value, where the message does not have it.

    def __str__(self) -> str:
        return ": ".join(part for part in (self.path, self.value, self.message) if part)


def validate_resource(resource: Json, old: Json | None = None) -> dict[str, Any]:
    """The resource with its defaults; raises InvalidResourceError with all problems.

    `old` is the stored resource, for the rules about changes.
    """
    filled, problems = check_resource(resource, old)
    if problems:
        lines = [str(problem) for problem in problems[:_PROBLEMS_MAX]]
        if len(problems) > _PROBLEMS_MAX:
            lines.append(f"and {len(problems) - _PROBLEMS_MAX} more")
        raise InvalidResourceError("\n".join(lines), problems=lines)
    assert isinstance(filled, dict)
    return filled


def check_resource(resource: Json, old: Json | None = None) -> tuple[Json, list[FieldProblem]]:
    """The resource with its defaults, and its problems.

    The CEL rules run only if the JSON schema found no problem.
    """
    if not isinstance(resource, dict):
        return resource, [FieldProblem("", f"a {KIND} expected, got {_shown(resource)}")]
    filled = with_defaults(canonical(resource), resource_schema())
    problems = sorted({problem for error in _shape_errors(filled) for problem in _explain(error)})
    if not problems:
        problems = [
            FieldProblem(
                _path_text(rule.path),
                f"{rule.message}{_serde_hint(rule.path, rule.value)}",
                _shown_scalar(rule.value),
            )
            for rule in broken_rules(filled, old, resource_schema())
        ]
    return filled, problems


def _shape_errors(resource: Json) -> Iterator[ValidationError]:
    return iter(_validator().iter_errors(resource))


@cache
def _validator() -> Draft202012Validator:
    schema = json_schema(resource_schema())
    schema["required"] = ["apiVersion", "kind", "metadata", "spec"]
    # The API server checks these fields itself.
    schema["properties"] |= {
        "metadata": _METADATA,
        "apiVersion": {"enum": [API_VERSION]},
        "kind": {"enum": [KIND]},
    }
    return Draft202012Validator(schema)


def _explain(error: ValidationError) -> Iterator[FieldProblem]:
    path = tuple(error.absolute_path)
    value: Json = error.instance
    limit: Json = error.validator_value
    schema: Schema = error.schema  # type: ignore[assignment]
    match error.validator:
        case "additionalProperties":
            known = sorted(schema.get("properties", {}))
            for name in sorted(set(value) - set(known), key=str):
                hint = _did_you_mean(str(name), known)
                yield _problem(
                    (*path, name), f"unknown field{hint} Allowed here: {', '.join(known)}"
                )
        case "required":
            for name in sorted(set(schema["required"]) - set(value)):
                what = schema["properties"].get(name, {}).get("description", "")
                yield _problem((*path, name), f"is required and missing. {what}".rstrip())
        case "enum":
            hint = _did_you_mean(value, limit)
            allowed = ", ".join(str(name) for name in limit)
            yield _problem(path, f"{_shown(value)} is not allowed{hint} Allowed: {allowed}")
        case "type":
            kinds = [limit] if isinstance(limit, str) else limit
            yield _problem(path, f"{_shown(value)} is not of type {' or '.join(kinds)}")
        case _:
            yield _problem(path, _explain_limit(str(error.validator), value, limit, error.message))


def _explain_limit(rule: str, value: Json, limit: Any, otherwise: str) -> str:
    texts = {
        "minimum": f"{_shown(value)} is too small: at least {limit}",
        "maximum": f"{_shown(value)} is too large: at most {limit}",
        "minLength": f"{_shown(value)} is too short: at least {limit} characters",
        "maxLength": f"{_shown(value)} is too long: at most {limit} characters",
        "minProperties": f"too few members: at least {limit}",
        "maxItems": f"too many items: at most {limit}",
        "maxProperties": f"too many members: at most {limit}",
    }
    return texts.get(rule, otherwise[: 4 * _VALUE_CHARS_MAX])


def _did_you_mean(word: Json, known: list[str]) -> str:
    names = {str(name).lower(): str(name) for name in known}
    close = difflib.get_close_matches(str(word).lower(), list(names), n=1)
    return f"; did you mean {names[close[0]]}?" if close else "."


def _serde_hint(path: tuple[str | int, ...], value: Json) -> str:
    """The serde that was meant, for the name of a type in Java, SQL or Python."""
    if not path or path[-1] != "serde" or not isinstance(value, str):
        return ""
    words = {word for word in re.findall(r"\w+", value) if word not in (*SERDE_NAMES, "list")}
    meant = {word: _meant_serde(word) for word in words}
    if not meant or None in meant.values():
        return ""
    return f"; did you mean {re.sub(r'[A-Za-z_0-9]+', lambda w: meant.get(w[0]) or w[0], value)}?"


def _meant_serde(word: str) -> str | None:
    close = difflib.get_close_matches(word.lower(), SERDE_NAMES, n=1, cutoff=0.8)
    return _SERDE_NAMES.get(word.lower()) or next(iter(close), None)


def _problem(path: tuple[str | int, ...], message: str) -> FieldProblem:
    return FieldProblem(_path_text(path), message)


def _path_text(path: tuple[str | int, ...]) -> str:
    parts = [
        f"[{part}]"
        if isinstance(part, int | MapKey)
        else f".{part}"
        if re.fullmatch(r"[A-Za-z0-9_]+", str(part))
        else f"[{part}]"
        for part in path
    ]
    return "".join(parts).removeprefix(".")


def _shown_scalar(value: Json) -> str:
    return _shown(value) if isinstance(value, str | int | float) else ""


def _shown(value: Json) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) <= _VALUE_CHARS_MAX else f"{text[:_VALUE_CHARS_MAX]}..."
