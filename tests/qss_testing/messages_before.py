"""Messages of the version before, and what it can read, from `tests/contract/before`."""

import json
from pathlib import Path
from typing import Any

import jsonschema

_FILE = Path(__file__).parents[1] / "contract" / "before" / "messages.json"
_RECORDED: dict[str, Any] = json.loads(_FILE.read_text())
DOCUMENTS: dict[str, Any] = _RECORDED["documents"]


def refusal_before(name: str, message: bytes) -> str | None:
    """Why the version before refuses the bytes of a message; None where it reads it."""
    schema = {"$ref": f"#/schemas/{name}", "schemas": _RECORDED["schemas"]}
    validator = jsonschema.Draft202012Validator(schema)
    found = jsonschema.exceptions.best_match(validator.iter_errors(json.loads(message)))
    return None if found is None else str(found.message)
