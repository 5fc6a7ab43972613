"""The model of the spec equals the CRD file."""

import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from qss_core.errors import MalformedRequestError
from qss_core.formats.values import Format
from qss_core.model import Partitioner, StoreDefinition, StoreId, StoreName, StoreType
from qss_core.quantities import (
    parse_duration_ms,
    parse_kubernetes_bytes,
    parse_quantity_bytes,
)
from qss_core.spec.resource import (
    StoreSpec,
    decode_spec,
    default_format,
    definition_of,
    formats_of,
    settings_of,
)
from qss_core.wire.messages import decode, encode

CRD_FILE = Path(__file__).parents[4] / "crds" / "queryablestatestores.yaml"
MINIMAL: dict[str, Any] = {
    "store": {"type": "KeyValue", "key": {"serde": "string"}, "value": {"serde": "json"}},
    "partitions": 12,
}
BOUNDS = (
    "type", "minimum", "maximum", "minLength", "maxLength", "maxItems", "maxProperties", "pattern",
)  # fmt: skip


FORM = re.compile(r"(?:self|string\(self\))\.matches\('([^']*)'\)")


def crd_spec_schema() -> dict[str, Any]:
    crd = yaml.safe_load(CRD_FILE.read_text())
    schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    spec: dict[str, Any] = schema["properties"]["spec"]
    return spec


def filled(schema: dict[str, Any]) -> Any:
    """The default of a schema with the defaults of its members; None if there is none."""
    if "default" not in schema:
        return None
    if schema["default"] != {} or "properties" not in schema:
        return schema["default"]
    members = {name: filled(member) for name, member in schema["properties"].items()}
    return {name: value for name, value in members.items() if value is not None}


def comparable(default: Any) -> Any:
    """A default without absent members; an empty map or list counts as absent."""
    if isinstance(default, dict):
        members = {name: comparable(value) for name, value in default.items()}
        return {name: value for name, value in members.items() if value is not None} or None
    return None if default in ([], ()) else default


def crd_shape(schema: dict[str, Any], path: str = "spec") -> dict[str, Any]:
    """Everything in a CRD schema that the model has as well, by field path."""
    bounds = {name: schema[name] for name in BOUNDS if name in schema}
    for rule in schema.get("x-kubernetes-validations", ()):
        # It is a CEL rule, so that its message says what is wrong.
        if found := FORM.fullmatch(rule["rule"]):
            bounds["pattern"] = found[1]
    if schema.get("x-kubernetes-int-or-string"):
        bounds["type"] = "integer or string"
    shape = {
        path: {
            **bounds,
            "enum": sorted(schema.get("enum", [])),
            "required": sorted(schema.get("required", [])),
            "default": comparable(filled(schema)),
        }
    }
    for name, member in schema.get("properties", {}).items():
        shape |= crd_shape(member, f"{path}.{name}")
    for name, suffix in (("items", "[]"), ("additionalProperties", "{}")):
        if isinstance(schema.get(name), dict):
            shape |= crd_shape(schema[name], path + suffix)
    return shape


def model_shape(schema: dict[str, Any], types: dict[str, Any], path: str = "spec") -> Any:
    """The same shape from the model's JSON schema."""
    default = comparable(schema.get("default"))
    schema = {**resolved(schema, types)}
    shape = {
        path: {
            **{name: schema[name] for name in BOUNDS if name in schema},
            "enum": sorted(schema.get("enum", [])),
            "required": sorted(schema.get("required", [])),
            "default": default,
        }
    }
    for name, member in schema.get("properties", {}).items():
        shape |= model_shape(member, types, f"{path}.{name}")
    for name, suffix in (("items", "[]"), ("additionalProperties", "{}")):
        if isinstance(schema.get(name), dict) and schema[name]:
            shape |= model_shape(schema[name], types, path + suffix)
    return shape


def resolved(schema: dict[str, Any], types: dict[str, Any]) -> dict[str, Any]:
    """The schema behind references and optional members; it always has a type."""
    if "$ref" in schema:
        return resolved(types[schema["$ref"].rpartition("/")[2]], types)
    if "anyOf" in schema:
        options = [option for option in schema["anyOf"] if option != {"type": "null"}]
        if len(options) == 1:
            return resolved(options[0], types)
        merged = {name: value for option in options for name, value in option.items()}
        return {**merged, "type": "integer or string"}
    if "enum" in schema:
        names = [value for value in schema["enum"] if value is not None]
        return {**schema, "enum": names, "type": "string"}
    return schema


def test_the_crd_and_the_model_have_the_same_fields_defaults_and_bounds() -> None:
    model = msgspec.json.schema(StoreSpec)
    expected = crd_shape(crd_spec_schema())
    actual = model_shape(model, model["$defs"])
    assert set(actual) == set(expected)
    assert {path: actual[path] for path in actual if actual[path] != expected[path]} == {
        path: expected[path] for path in actual if actual[path] != expected[path]
    }


def test_a_minimal_spec_becomes_a_definition_and_settings() -> None:
    spec = decode_spec(MINIMAL)
    definition = definition_of(StoreName("word-counts"), StoreId("5f0c"), spec)
    assert definition.format == "Timestamped"
    assert definition.partitioner is Partitioner.MURMUR2
    assert (definition.key_serde, definition.value_serde) == ("string", "json")
    settings = settings_of(spec)
    assert settings.uncommitted_bytes_max == 64 * 1024**2
    assert settings.changelog_retention_ms == 86_400_000
    assert settings.staged_bytes_max is None


def definition_with(**rows: Any) -> StoreDefinition:
    spec = decode_spec({**MINIMAL, "store": {**MINIMAL["store"], **rows}})
    return definition_of(StoreName("word-counts"), StoreId("5f0c"), spec)


def test_a_definition_says_how_long_windows_are_and_are_kept() -> None:
    window = {"size": "1h", "retention": "744h", "retainDuplicates": True}
    made = definition_with(type="Window", window=window)
    assert (made.window_size_ms, made.retention_ms) == (3_600_000, 744 * 3_600_000)
    assert made.retain_duplicates
    assert made.session_gap_ms is None
    usual = definition_with(type="Window", window={})
    assert (usual.window_size_ms, usual.retention_ms) == (3_600_000, 168 * 3_600_000)


def test_a_definition_says_how_far_apart_sessions_are_and_how_long_they_are_kept() -> None:
    made = definition_with(type="Session", session={"gap": "4h", "retention": "31h"})
    assert (made.session_gap_ms, made.retention_ms) == (4 * 3_600_000, 31 * 3_600_000)
    assert (made.format, made.window_size_ms) == ("Plain", None)


@pytest.mark.parametrize("store_type", ["Window", "Session"])
def test_a_type_with_times_needs_its_block(store_type: str) -> None:
    with pytest.raises(MalformedRequestError, match=f"needs the block {store_type.lower()}"):
        definition_with(type=store_type)


@pytest.mark.parametrize("left_out", ["retention_ms", "window_size_ms"])
def test_a_definition_of_windows_without_their_lengths_is_refused(left_out: str) -> None:
    made = definition_with(type="Window", window={})
    with pytest.raises(MalformedRequestError, match="a retention and a window size"):
        msgspec.structs.replace(made, **{left_out: None})


def test_a_definition_that_an_older_pod_has_kept_is_read() -> None:
    made = definition_with()
    kept = json.loads(encode(made))
    for member in ("retentionMs", "windowSizeMs", "sessionGapMs", "retainDuplicates"):
        del kept[member]
    assert decode(json.dumps(kept).encode(), StoreDefinition) == made


@pytest.mark.parametrize("unlimited", [-1, "-1"])
def test_minus_one_means_no_limit_of_uncommitted_rows(unlimited: int | str) -> None:
    spec = decode_spec({**MINIMAL, "uncommittedMaxBytes": unlimited})
    assert settings_of(spec).uncommitted_bytes_max == -1


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [("0s", 0), ("500ms", 500), ("10s", 10_000), ("1h30m", 5_400_000), ("1m1ms", 60_001)],
)
def test_durations_are_sums_of_their_parts(text: str, milliseconds: int) -> None:
    assert parse_duration_ms(text) == milliseconds


@pytest.mark.parametrize("text", ["", "10", "1d", "-1s", "1.5h", "1h ", "1h\n"])
def test_anything_else_is_no_duration(text: str) -> None:
    with pytest.raises(MalformedRequestError, match="no duration"):
        parse_duration_ms(text)


def test_days_are_told_in_hours() -> None:
    with pytest.raises(MalformedRequestError, match="there are no days: write it as 168h"):
        parse_duration_ms("7d")


@pytest.mark.parametrize(
    ("text", "size"),
    [
        (7, 7),
        ("7", 7),
        ("1k", 1000),
        ("64Mi", 67_108_864),
        ("1.5Gi", 1_610_612_736),
        ("0.001Ki", 2),
    ],
)
def test_quantities_are_rounded_up_to_bytes(text: int | str, size: int) -> None:
    assert parse_quantity_bytes(text) == size


@pytest.mark.parametrize("text", ["", "Mi", "1K", "-5", "1e3", "1m", "1 Gi"])
def test_anything_else_is_no_quantity(text: str) -> None:
    with pytest.raises(MalformedRequestError, match="no quantity"):
        parse_quantity_bytes(text)


def test_every_type_has_its_formats_and_a_default_among_them() -> None:
    defaults = {kind.value: default_format(kind).value for kind in StoreType}
    assert defaults == {
        "KeyValue": "Timestamped",
        "Window": "Timestamped",
        "Session": "Plain",
        "Versioned": "Plain",
        "Custom": "Plain",
    }
    assert all(default_format(kind) in formats_of(kind) for kind in StoreType)
    assert Format.PlainWithHeaders not in formats_of(StoreType.KEY_VALUE)


def test_a_versioned_store_says_how_long_its_history_is_kept() -> None:
    rows = {**MINIMAL["store"], "type": "Versioned"}
    spec = decode_spec({**MINIMAL, "store": {**rows, "versioned": {"historyRetention": "90m"}}})
    definition = definition_of(StoreName("a"), StoreId("b"), spec)
    assert (definition.history_retention_ms, definition.format) == (5_400_000, "Plain")
    with pytest.raises(MalformedRequestError, match="needs the block versioned"):
        definition_of(StoreName("a"), StoreId("b"), decode_spec({**MINIMAL, "store": rows}))
    with pytest.raises(MalformedRequestError, match="history retention"):
        msgspec.structs.replace(definition, history_retention_ms=None)


def test_a_store_of_a_users_own_type_names_it_and_what_it_is_given() -> None:
    rows = {**MINIMAL["store"], "type": "Custom"}
    custom = {"name": "ByMember", "options": {"serde": "string", "member": "origin"}}
    spec = decode_spec({**MINIMAL, "store": {**rows, "custom": custom}})
    definition = definition_of(StoreName("a"), StoreId("b"), spec)
    assert (definition.custom_name, definition.format) == ("ByMember", "Plain")
    assert definition.custom_options == (("member", "origin"), ("serde", "string"))
    assert (definition.type, definition.row_type) == (StoreType.CUSTOM, StoreType.KEY_VALUE)
    assert hash(definition) == hash(msgspec.structs.replace(definition))
    assert decode(encode(definition), StoreDefinition) == definition
    with pytest.raises(MalformedRequestError, match="needs the block custom"):
        definition_of(StoreName("a"), StoreId("b"), decode_spec({**MINIMAL, "store": rows}))
    for change in ({"custom_name": None}, {"type": StoreType.KEY_VALUE}):
        with pytest.raises(MalformedRequestError, match="needs a custom name"):
            msgspec.structs.replace(definition, **change)


@pytest.mark.parametrize(("replicas", "standbys", "effective"), [(3, 1, 1), (2, 5, 1), (0, 1, 0)])
def test_standbys_are_limited_by_the_other_pods(
    replicas: int, standbys: int, effective: int
) -> None:
    spec = decode_spec({**MINIMAL, "replicas": replicas, "standbys": standbys})
    assert spec.effective_standbys == effective


@pytest.mark.parametrize(("replicas", "effective"), [(0, 0), (1, 0), (2, 1), (5, 1)])
def test_a_store_of_more_than_one_pod_has_one_standby_where_none_is_named(
    replicas: int, effective: int
) -> None:
    spec = decode_spec({**MINIMAL, "replicas": replicas})
    assert (spec.standbys, spec.effective_standbys) == (None, effective)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("1181116006400m", 1181116007),
        ("1Gi", 2**30),
        ("12e3", 12_000),
        ("1E", 10**18),
        ("1Ei", 2**60),
        ("5u", 1),
        (".5Ki", 512),
        ("7", 7),
    ],
)
def test_quantities_are_read_as_the_api_server_writes_them(text: str, size: int) -> None:
    assert parse_kubernetes_bytes(text) == size


def test_what_no_api_server_writes_is_no_quantity() -> None:
    with pytest.raises(MalformedRequestError, match="no quantity of Kubernetes"):
        parse_kubernetes_bytes("1 Gi")
