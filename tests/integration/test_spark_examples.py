"""The examples run: the compose file's services, its job, and the cells of the notebook."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from qss_client import Store
from qss_core.model import StoreAssignment
from qss_core.wire.messages import decode
from qss_operator.resources.manifests import read_manifests
from qss_operator.resources.validation import validate_resource
from qss_testing.composed import ROOT, Composed, entrypoint_of
from qss_testing.page_commands import outputs_of_page
from qss_testing.waiting import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.long]

EXAMPLES = ROOT / "spark-jobs" / "examples"
FILE = EXAMPLES / "compose" / "compose.yaml"
# What the file may have, of the members that Compose knows.
MEMBERS = {"image", "build", "command", "entrypoint", "depends_on", "healthcheck", "ports"}
CONDITIONS = {"service_healthy", "service_completed_successfully"}
# One process, so that Java starts once: the job, and then the cells with the same session.
PROGRAM = """
import json, runpy, sys
notebook, job, *arguments = sys.argv[1:]
sys.argv = [job, *arguments]
runpy.run_path(job, run_name="__main__")
cells = json.load(open(notebook))["cells"]
names = {}
for cell in cells:
    if cell["cell_type"] == "code":
        exec("".join(cell["source"]), names)
"""


@pytest.fixture
def composed(tmp_path: Path) -> Iterator[Composed]:
    made = Composed(FILE, tmp_path)
    yield made
    made.stop()


def test_the_services_of_the_compose_file_run_and_then_the_notebook(composed: Composed) -> None:
    for name in composed.addresses:
        composed.start(name)
    for name in composed.addresses:
        wait_until(lambda name=name: composed.is_healthy(name))  # type: ignore[misc]
    told = "words-0 has its partitions\nwords-1 has its partitions\n"
    assert [composed.run("assign"), composed.run("assign")] == [told, told], "also a second time"

    bash, *words = composed.command("job")
    assert bash.endswith("entrypoint.sh")
    assert words[0] == sys.executable
    url = f"http://{composed.addresses['words-1']}:8080"
    done = subprocess.run(
        [bash, sys.executable, "-c", PROGRAM, str(EXAMPLES / "read_a_store.ipynb"), *words[1:]],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        env={**composed.environment("job"), "QSS_URL": url},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    said = [line for line in done.stdout.splitlines() if line.strip()]
    assert "{'keys': '[\"be\"]'}" in said  # What the filter reads.
    assert said[-2:] == ["2", "2"]  # Rows of two keys, and the value of one.
    (answer,) = (
        output
        for command, output in outputs_of_page("spark-jobs/docs/compose.md").items()
        if command.startswith("curl ")
    )
    with Store(url, "words") as store:
        row = store.get("be")
        assert row is not None
        assert f'"value":{row.value},' in answer
        assert len(store.metadata().assignment[0].in_sync) == 2


def test_the_compose_file_keeps_the_schema_of_the_specification() -> None:
    program = str(Path(sys.executable).with_name("check-jsonschema"))
    command = (program, "--builtin-schema", "vendor.compose-spec", FILE)
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout


def test_the_compose_file_names_what_is_there() -> None:
    document = yaml.safe_load(FILE.read_text())
    services = document["services"]
    assert set(document) == {"name", "x-pod", "services", "volumes"}
    for name, service in services.items():
        assert set(service) <= {*MEMBERS, "volumes"}, name
        assert (FILE.parent / service["build"]["context"]).resolve() == ROOT
        assert entrypoint_of(service)
        for other, how in service.get("depends_on", {}).items():
            assert (set(how), other in services) == ({"condition"}, True)
            assert how["condition"] in CONDITIONS
            assert ("healthcheck" in services[other]) == (how["condition"] == "service_healthy")
        for port in service.get("ports", ()):
            assert re.fullmatch(r"127\.0\.0\.1:\d+:8080", port), "this machine alone reaches it"
        for source, target, *more in (one.split(":") for one in service.get("volumes", ())):
            assert target.startswith("/")
            if source.startswith("."):
                assert ((FILE.parent / source).resolve(), more) == (EXAMPLES, ["ro"])
            else:  # A new volume takes the owner of the image's folder.
                assert source in document["volumes"]
                made = f"install --directory --owner 10001 --group 10001 {target}\n"
                assert made in (ROOT / service["build"]["dockerfile"]).read_text()


def test_the_store_of_the_examples_is_valid_and_that_of_the_compose_file() -> None:
    (manifest,) = read_manifests([EXAMPLES / "words.yaml"])
    valid = validate_resource(manifest.resource)
    assert valid["metadata"]["name"] == "words"
    text = (EXAMPLES / "compose" / "assignment.json").read_bytes()
    assignment = decode(text, StoreAssignment)
    definition, store = assignment.definition, valid["spec"]["store"]
    assert (definition.name, definition.type) == ("words", store["type"])
    assert (definition.key_serde, definition.value_serde) == ("string", "json")
    assert len(assignment.partitions) == definition.partitions == valid["spec"]["partitions"]
    assert len(assignment.pods) == valid["spec"]["replicas"]
    assert all(len({*one.replicas}) == 2 for one in assignment.partitions)
