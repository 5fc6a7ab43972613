"""`qss up` takes the stores that READMEs and pages show, and prints what the pages show."""

import re
from pathlib import Path

import pytest

from qss_core.formats.values import Format, lost_between
from qss_core.quantities import parse_quantity_bytes
from qss_core.spec.resource import ChangelogSpec, StorageSpec
from qss_operator.local.directory.state import StateDirectory
from qss_operator.local.prepare import prepare
from qss_operator.planning.formats import lossy_message
from qss_store.runtime.command_line import parse_arguments

ROOT = Path(__file__).parents[2]
BLOCKS = re.compile(r"```[a-z]*\n(.*?)```", re.DOTALL)
LOCAL_PORTS = re.compile(r"(?:127\.0\.0\.1|localhost):([0-9]+)")
RESOURCES = re.compile(r"```yaml\n((?:#.*\n)?apiVersion: queryablestate\.dev.*?)```", re.DOTALL)


def resources(readme: str) -> list[str]:
    return RESOURCES.findall((ROOT / readme).read_text())


@pytest.mark.parametrize("readme", ["README.md", "crds/README.md", "store-pod/docs/choosing.md"])
def test_a_store_of_a_readme_works_on_one_machine(readme: str, tmp_path: Path) -> None:
    found = resources(readme)
    assert found, "it shows one"
    for text in found:
        file = tmp_path / "store.yaml"
        file.write_text(text)
        (prepared,) = prepare([file], StateDirectory(tmp_path / "state"))
        assert f"name: {prepared.name}" in text


def test_the_page_of_sizes_plans_with_the_defaults() -> None:
    """The page's example: the replicas of a pod, and what their logs take at most."""
    page = " ".join((ROOT / "store-pod/docs/sizing.md").read_text().split())
    changelog, volume = ChangelogSpec().retention_bytes, StorageSpec().size
    write_ahead_mi = 64
    assert f"at most {changelog} (`spec.changelog.retention`" in page
    assert f"up to {write_ahead_mi}Mi |" in page
    replica = parse_quantity_bytes(changelog) + write_ahead_mi * 1024**2
    replicas = 12 * (1 + 1) // 3
    assert f"with 12 partitions, 1 standby and 3 pods these are {replicas}" in page
    told = f"{replica // 1024**2}Mi for each replica: with {replicas} replicas"
    assert f"{told} {replicas * replica / 1024**3:g}Gi of the {volume}" in page
    assert f"with {parse_quantity_bytes(volume) // replica} replicas all of it" in page


def test_the_way_back_of_a_format_is_told_as_qss_up_tells_it() -> None:
    old, new = Format.TimestampedWithHeaders, Format.Timestamped
    page = (ROOT / "store-pod/docs/formats.md").read_text()
    assert lossy_message(old, new, lost_between(old, new)) in page


def test_examples_have_no_port_that_the_readers_store_does_not_have() -> None:
    """`qss up` chooses ports; only a pod that the same page starts has the default port."""
    default = default_query_port()
    fixed = []
    for page in pages():
        text = page.read_text()
        for block in BLOCKS.findall(text):
            ports = LOCAL_PORTS.findall(inputs(block))
            if ports and not (set(ports) == {default} and "$ python -m qss_store " in text):
                fixed.append((page.name, ports))
    assert fixed == []


def test_the_readme_says_that_the_port_of_its_output_is_another_one() -> None:
    shown = [line for line in (ROOT / "README.md").read_text().splitlines() if "127.0.0.1:" in line]
    assert shown, "the output of `qss up` shows a port"
    assert [line for line in shown if "(your port is another one)" not in line] == []


def default_query_port() -> str:
    told = " ".join((ROOT / "store-pod/docs/running.md").read_text().split())
    port: str
    (port,) = re.findall(r"query, ([0-9]+) \(`--query-port`\)", told)
    assert parse_arguments(["--store=w", "--ordinal=0", "--data-dir=d"]).query_port == int(port)
    return port


def pages() -> list[Path]:
    """The READMEs and their pages that show examples."""
    found = [ROOT / "README.md"]
    for directory in ("charts/queryable-state", "crds", "operator", "spark-jobs", "store-pod"):
        found += (ROOT / directory).rglob("*.md")
    return found


def inputs(block: str) -> str:
    """The lines of an example that a reader types: all lines, or those behind a prompt."""
    lines = block.splitlines()
    typed = [line for line in lines if line.startswith("$ ")]
    return "\n".join(typed or lines)


def test_the_readme_says_what_it_costs_before_its_first_command() -> None:
    before, command, _ = (ROOT / "README.md").read_text().partition("```console\n$ make ")
    assert command
    told = " ".join(before.split())
    cost = re.search(
        r"makes `\.venv`: ([0-9.]+ GB) of disk and, by your network, ([^.]* minutes)", told
    )
    assert cost is not None
    make = (ROOT / "Makefile").read_text()
    assert f": {cost[1]} on disk, {cost[2]} by the network;" in make, "`make` says the same"
    assert re.search(r"`make demo` takes [0-9.]+ minutes? and `make test` [0-9]+", told)


def test_the_readme_says_that_one_copy_is_one_copy() -> None:
    told = " ".join((ROOT / "README.md").read_text().split())
    assert "Without a standby a partition is gone with its volume." in told
