"""`qss up` takes the stores that READMEs and pages show, and prints what the pages show."""

import re
from pathlib import Path

import pytest

from qss_core.formats.values import Format, lost_between
from qss_operator.local.directory.state import StateDirectory
from qss_operator.local.prepare import prepare
from qss_operator.planning.formats import lossy_message

ROOT = Path(__file__).parents[2]
RESOURCES = re.compile(r"```yaml\n((?:#.*\n)?apiVersion: queryablestate\.dev.*?)```", re.DOTALL)


def resources(readme: str) -> list[str]:
    return RESOURCES.findall((ROOT / readme).read_text())


@pytest.mark.parametrize("readme", ["README.md", "crds/README.md"])
def test_a_store_of_a_readme_works_on_one_machine(readme: str, tmp_path: Path) -> None:
    found = resources(readme)
    assert found, "it shows one"
    for text in found:
        file = tmp_path / "store.yaml"
        file.write_text(text)
        (prepared,) = prepare([file], StateDirectory(tmp_path / "state"))
        assert f"name: {prepared.name}" in text


def test_the_way_back_of_a_format_is_told_as_qss_up_tells_it() -> None:
    old, new = Format.TimestampedWithHeaders, Format.Timestamped
    page = (ROOT / "store-pod/docs/formats.md").read_text()
    assert lossy_message(old, new, lost_between(old, new)) in page


def test_examples_have_no_port_that_only_one_machine_had() -> None:
    shown = (ROOT / "README.md").read_text()
    assert "127.0.0.1:19999" not in shown
    assert not re.search(r"StoreSink\([^)]*127\.0\.0\.1", shown)
