"""Takes keys, values and tokens out of what a report has. Pure."""

import re
from collections.abc import Mapping
from typing import Any

REMOVED = "(removed)"
_PATTERNS = (
    (re.compile(r"\beyJ[\w-]*\.[\w-]+\.[\w-]*"), REMOVED),  # A JSON Web Token.
    (re.compile(r"(?i)\b(bearer|basic)\s+[\w.~+/=-]+"), rf"\1 {REMOVED}"),
    (
        re.compile(
            r"(?i)(password|token|secret|authorization)(\"?\s*[=:]\s*)(\"[^\"]*\"|[^\s\",;]+)"
        ),
        rf"\1\2{REMOVED}",
    ),
    # What stands behind the name of the store in a path is a key; parameters have keys, too.
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
    return redacted_text(found) if isinstance(found, str) else found


def _variable(variable: Any) -> Any:
    if isinstance(variable, Mapping) and "value" in variable:
        return {**variable, "value": REMOVED}
    return redacted_object(variable)
