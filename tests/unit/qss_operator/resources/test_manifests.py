"""YAML files: several documents, JSON types, and errors that name the line."""

from pathlib import Path

import pytest
import yaml

from qss_core.spec.resource import decode_spec
from qss_operator.errors import InvalidResourceError
from qss_operator.resources.manifests import read_manifests
from qss_operator.resources.validation import validate_resource
from qss_testing.clients.qss_command import manifest


def written(directory: Path, text: str, name: str = "stores.yaml") -> Path:
    file = directory / name
    file.write_text(text)
    return file


def test_every_document_of_every_file_is_read(tmp_path: Path) -> None:
    first = written(tmp_path, "---\na: 1\n---\n---\nb: 2\n", "first.yaml")
    second = written(tmp_path, "c: 3\n", "second.yaml")
    found = read_manifests([first, second])
    assert [manifest.resource for manifest in found] == [{"a": 1}, {"b": 2}, {"c": 3}]
    assert found[1].source == f"{first}, document 3"
    assert found[2].source == str(second)


def test_a_date_is_text_as_it_is_in_json(tmp_path: Path) -> None:
    file = written(tmp_path, "note: 2026-11-21\n")
    assert read_manifests([file])[0].resource == {"note": "2026-11-21"}


@pytest.mark.parametrize(
    ("text", "fragment"),
    [
        ("a: 1\nb: {c: 1, c: 2}\n", "the field 'c' is given twice"),
        ("a: [1\n", "is no YAML"),
        ("a: &a [*a]\n", "aliases"),
        ("[" * 2000, "too deep"),
        ("", "there is no document"),
        ("a: !!python/object:os.system 1\n", "is no YAML"),
    ],
)
def test_what_is_no_manifest_is_refused(tmp_path: Path, text: str, fragment: str) -> None:
    with pytest.raises(InvalidResourceError, match=r"stores\.yaml") as caught:
        read_manifests([written(tmp_path, text)])
    assert fragment in caught.value.message


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidResourceError, match=r"absent\.yaml: No such file"):
        read_manifests([tmp_path / "absent.yaml"])


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "picture.yaml"
    file.write_bytes(b"\x89PNG\xff\xfe")
    with pytest.raises(InvalidResourceError, match="is no YAML"):
        read_manifests([file])


def test_a_whole_number_with_a_point_is_an_integer() -> None:
    resource = yaml.safe_load(manifest(partitions=4.0, replicas=2.0))
    spec = decode_spec(validate_resource(resource)["spec"])
    assert (spec.partitions, spec.replicas) == (4, 2)
