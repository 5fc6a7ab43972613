"""A serde that has the name of a type in Java, SQL or Python is answered with the one meant."""

from typing import Any

import pytest
import yaml

from qss_operator.errors import InvalidResourceError
from qss_operator.resources.validation import validate_resource
from qss_testing.clients.qss_command import manifest


def resource_with(serde: str) -> dict[str, Any]:
    store = {"type": "KeyValue", "key": {"serde": "string"}, "value": {"serde": serde}}
    resource: dict[str, Any] = yaml.safe_load(manifest(store=store))
    return resource


@pytest.mark.parametrize(
    ("serde", "meant"),
    [
        ("double", "float64"),
        ("long", "int64"),
        ("int", "int32"),
        ("str", "string"),
        ("Bool", "boolean"),
        ("stirng", "string"),
        ("list<double>", "list<float64>"),
        ("list<list<long>>", "list<list<int64>>"),
    ],
)
def test_the_serde_that_was_meant_is_named(serde: str, meant: str) -> None:
    with pytest.raises(InvalidResourceError, match=f"did you mean {meant}\\?"):
        validate_resource(resource_with(serde))


@pytest.mark.parametrize("serde", ["avro", "list<avro>", "map<string,long>"])
def test_a_serde_that_is_like_none_gets_no_suggestion(serde: str) -> None:
    with pytest.raises(InvalidResourceError, match="a serde is bytes") as caught:
        validate_resource(resource_with(serde))
    assert "did you mean" not in caught.value.message
