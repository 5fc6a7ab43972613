"""Rewrites JSON schemas for client generators, with the same meaning.

msgspec writes JSON Schema of 2020-12. Generators support less of it: no `items: false`, no array
without `items`, no choice between values without a type, and names only from titles.
"""

from collections.abc import Mapping
from typing import Any

_ANY = {"description": "Any JSON."}


def plain_schemas(schemas: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    """All components, each with a title."""
    return {name: {"title": name, **plain(schema)} for name, schema in schemas.items()}


def plain(schema: Any) -> Any:
    """Rewrites a schema and its parts."""
    if isinstance(schema, list):
        return [plain(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    said = {name: plain(value) for name, value in schema.items()}
    if said.get("type") == "array":
        _say_items(said)
    choices = said.get("enum")
    if isinstance(choices, list) and all(isinstance(one, str) for one in choices):
        said.setdefault("type", "string")
    if isinstance(said.get("description"), str):
        said["description"] = " ".join(said["description"].split())
    return said


def _say_items(array: dict[str, Any]) -> None:
    """Gives an array one schema for all items, even if each place had its own."""
    places = array.pop("prefixItems", [])
    if array.get("items", False) is False:
        kinds = [one for number, one in enumerate(places) if one not in places[:number]]
        assert len(kinds) <= 1, "generators know no array whose items are of several kinds"
        array["items"] = kinds[0] if kinds else _ANY
