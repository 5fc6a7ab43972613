"""Takes keys, values and tokens out of a report. Pure."""

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

REMOVED = "(removed)"
# Between name and value, and a value in quotes; in JSON within a text the quotes have backslashes.
_SIGN = r"\\?\"?\s*[=:]\s*"
_QUOTED = r"\\\"[^\"]*\"|\"(?:[^\"\\]|\\.)*\"|'[^']*'"
_PATTERNS = (
    (re.compile(r"\beyJ[\w-]*\.[\w-]+\.[\w-]*"), REMOVED),  # A JSON Web Token.
    (re.compile(r"(?i)\b(bearer|basic)\s+[\w.~+/=-]+"), rf"\1 {REMOVED}"),
    (re.compile(rf"(?i)(authorization)({_SIGN})({_QUOTED}|[^\r\n\",;]+)"), rf"\1\2{REMOVED}"),
    (
        re.compile(rf"(?i)(password|token|secret)({_SIGN})({_QUOTED}|[^\s\",;]+)"),
        rf"\1\2{REMOVED}",
    ),
    (re.compile(r"(?i)\b([a-z][a-z0-9+.-]*://)[^\s/@\"']+@"), rf"\1{REMOVED}@"),
    # The part of a path behind the name of the store is a key; parameters have keys, too.
    (re.compile(r"(/state/[a-z]+/[a-z0-9.-]+)/[^\s\"'?]+"), rf"\1/{REMOVED}"),
    (re.compile(r"(/state/[^\s\"'?]*)\?[^\s\"']+"), rf"\1?{REMOVED}"),
)
# Of these members only the names stay, as of the entries of `env`.
_REPEATED = frozenset({"managedFields", "kubectl.kubernetes.io/last-applied-configuration"})


def redacted_text(text: str) -> str:
    """A log without tokens, and without keys in the paths of requests."""
    for pattern, put in _PATTERNS:
        text = pattern.sub(put, text)
    return text


def redacted_object(found: Any) -> Any:
    """An object of Kubernetes without the values of its environment variables."""
    if isinstance(found, Mapping):
        return {
            name: [_variable(one) for one in member]
            if name == "env" and isinstance(member, list)
            else redacted_object(member)
            for name, member in found.items()
            if name not in _REPEATED
        }
    if isinstance(found, list):
        return [redacted_object(one) for one in found]
    return _text(found) if isinstance(found, str) else found


def _text(text: str) -> str:
    """A text, which may be the JSON of an object, as in annotations of tools that apply objects."""
    if text.lstrip().startswith(("{", "[")):
        with suppress(ValueError, RecursionError):
            text = json.dumps(redacted_object(json.loads(text)), ensure_ascii=False)
    return redacted_text(text)


def _variable(variable: Any) -> Any:
    if isinstance(variable, Mapping) and "value" in variable:
        return {**variable, "value": REMOVED}
    return redacted_object(variable)
