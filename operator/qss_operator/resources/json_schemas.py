"""The validator of JSON schemas, imported without the grammars of international addresses.

Where `rfc3987_syntax` is installed, as beside Jupyter, jsonschema imports it, and it builds 40
grammars: a second of each process. No schema of a resource has a format that needs them.
"""

import sys

_GRAMMARS = "rfc3987_syntax"
_IS_HIDDEN = _GRAMMARS not in sys.modules

if _IS_HIDDEN:
    sys.modules[_GRAMMARS] = None  # type: ignore[assignment]
try:
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import ValidationError
finally:
    if _IS_HIDDEN:
        del sys.modules[_GRAMMARS]

__all__ = ["Draft202012Validator", "ValidationError"]
