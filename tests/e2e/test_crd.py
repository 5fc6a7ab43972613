"""The CRD at a real API server: the corpus, defaults, ratcheting, both kinds of apply, explain."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.environment import CRD, ROOT
from e2e.kubectl import Cluster, CommandError
from qss_operator.resources.validation import check_resource

CORPUS = ROOT / "tests" / "contract"
BAD = sorted((CORPUS / "bad_resources").glob("*.yaml"))
GOOD = sorted((CORPUS / "good_resources").glob("*.yaml"))
# With this text, the API server refuses a resource before it checks a rule.
_BY_FIELD_VALIDATION = "strict decoding error"

pytestmark = pytest.mark.usefixtures("crd")


def load(file: Path) -> dict[str, Any]:
    case: dict[str, Any] = yaml.safe_load(file.read_text())
    return case


@pytest.fixture
def here(namespace: Cluster) -> Iterator[Cluster]:
    yield namespace
    namespace.kubectl("delete", "qss", "--all", "--wait=true")


def named(case: dict[str, Any]) -> str:
    name: str = case["resource"]["metadata"]["name"]
    return name


def refusals(file: Path, here: Cluster, *options: str) -> str:
    case = load(file)
    store_old(case, here)
    return here.refusal(case["resource"], *options)


def store_old(case: dict[str, Any], here: Cluster, *options: str) -> None:
    """Applies the old state of the resource, with its status."""
    if "old" not in case:
        return
    here.apply(case["old"], options=list(options))
    if status := case["old"].get("status"):
        place = f"qss/{case['old']['metadata']['name']}"
        here.patch(place, {"status": status}, "--subresource=status")


@pytest.mark.parametrize("file", BAD, ids=lambda file: file.stem)
def test_a_bad_resource_is_refused_with_the_words_of_qss_up(file: Path, here: Cluster) -> None:
    case = load(file)
    said = refusals(file, here)
    expected = case["expect"]
    if "rule" in expected:
        assert expected["rule"] in said
    old = check_resource(case["old"])[0] if "old" in case else None
    for problem in check_resource(case["resource"], old)[1]:
        # A message names an unknown field by its path, and a list item as `env[0]`.
        assert problem.path in said or _BY_FIELD_VALIDATION in said
    assert expected["field"].split(".")[-1] in said
    server_side = here.refusal(case["resource"], "--server-side", "--force-conflicts")
    if "rule" in expected:
        assert expected["rule"] in server_side


@pytest.mark.parametrize("file", GOOD, ids=lambda file: file.stem)
def test_a_good_resource_is_taken_and_gets_the_defaults_of_qss_up(
    file: Path, here: Cluster
) -> None:
    case = load(file)
    store_old(case, here)
    here.apply(case["resource"])
    filled, problems = check_resource(case["resource"])
    assert problems == []
    stored = here.get("qss", named(case))
    assert without_nulls(stored["spec"]) == without_nulls(filled["spec"])


@pytest.mark.parametrize("file", GOOD, ids=lambda file: file.stem)
def test_server_side_apply_takes_the_good_resources_too(file: Path, here: Cluster) -> None:
    case = load(file)
    store_old(case, here, "--server-side")
    here.apply(case["resource"], options=["--server-side"])
    here.apply(case["resource"], options=["--server-side"])


def without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: without_nulls(one) for name, one in value.items() if one is not None}
    if isinstance(value, list):
        return [without_nulls(one) for one in value]
    return value


def test_a_value_that_was_stored_before_a_rule_stays_valid_until_it_is_edited(
    here: Cluster, cluster: Cluster
) -> None:
    minimal = load(CORPUS / "good_resources" / "minimal.yaml")["resource"]
    name = minimal["metadata"]["name"]
    crd = yaml.safe_load(CRD.read_text())
    serde = _property(crd, "spec", "store", "value", "serde")
    strict = serde.pop("x-kubernetes-validations")
    cluster.apply(crd, options=["--server-side", "--force-conflicts"])
    try:
        minimal["spec"]["store"]["value"]["serde"] = "avro"
        here.apply(minimal)
        serde["x-kubernetes-validations"] = strict
        cluster.apply(crd, options=["--server-side", "--force-conflicts"])
        # Ratcheting: another field may be edited although the old value breaks the new rule.
        here.patch(f"qss/{name}", {"spec": {"replicas": 4}})
        assert here.get("qss", name)["spec"]["replicas"] == 4
        with pytest.raises(CommandError, match="serde"):
            here.patch(f"qss/{name}", {"spec": {"store": {"key": {"serde": "avro"}}}})
    finally:
        cluster.kubectl("apply", "--server-side", "--force-conflicts", "-f", str(CRD))


def test_client_side_apply_can_hold_the_crd(cluster: Cluster) -> None:
    # The annotation with the last applied content may have at most 256 KiB.
    assert CRD.stat().st_size < 200 * 1024
    cluster.kubectl("apply", "-f", str(CRD), "--dry-run=server")


def test_explain_has_a_description_for_every_field(cluster: Cluster) -> None:
    for path in _described_paths():
        said = cluster.kubectl("explain", f"qss.{path}")
        assert "DESCRIPTION:" in said
        assert "<empty>" not in said.split("DESCRIPTION:")[1].split("FIELDS:")[0], path


def test_status_and_scale_are_subresources(here: Cluster) -> None:
    minimal = load(CORPUS / "good_resources" / "minimal.yaml")["resource"]
    name = minimal["metadata"]["name"]
    here.apply(minimal)
    here.kubectl("scale", f"qss/{name}", "--replicas=5")
    status = {"replicas": 4, "selector": "queryablestate.dev/store=x", "ready": "4/5"}
    here.patch(f"qss/{name}", {"status": status})
    assert "status" not in here.get("qss", name)
    here.patch(f"qss/{name}", {"status": status, "spec": {"replicas": 9}}, "--subresource=status")
    stored = here.get("qss", name)
    assert (stored["spec"]["replicas"], stored["status"]) == (5, status)
    scale = here.get("qss", name, "--subresource=scale")
    assert scale["spec"] == {"replicas": 5}
    assert scale["status"] == {"replicas": 4, "selector": status["selector"]}
    with pytest.raises(CommandError, match=r"spec\.replicas"):
        here.kubectl("scale", f"qss/{name}", "--replicas=100000")


def test_kubectl_get_has_the_columns_of_a_store(here: Cluster) -> None:
    here.apply(load(CORPUS / "good_resources" / "minimal.yaml")["resource"])
    columns = here.kubectl("get", "qss").splitlines()[0].split()
    assert " ".join(columns) == "NAME READY ASSIGNED IN-SYNC MOVING STATUS DEGRADED TYPE AGE"
    wide = here.kubectl("get", "qss", "--output", "wide").splitlines()[0].split()
    more = "ZONES VERSIONS PARTITIONS STANDBYS FORMAT MIGRATED ENDPOINT"
    assert wide == [*columns, *more.split()]
    assert "queryablestatestore" in here.kubectl("get", "all")


def _schema() -> dict[str, Any]:
    version = yaml.safe_load(CRD.read_text())["spec"]["versions"][0]
    schema: dict[str, Any] = version["schema"]["openAPIV3Schema"]
    return schema


def _property(crd: dict[str, Any], *path: str) -> dict[str, Any]:
    node = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    for name in path:
        node = node["properties"][name]
    found: dict[str, Any] = node
    return found


def _described_paths() -> Iterator[str]:
    """The paths of blocks; a block shows its own description, and those of its fields."""
    for name in ("spec", "status"):
        yield from _blocks(name, _schema()["properties"][name])


def _blocks(path: str, node: dict[str, Any]) -> Iterator[str]:
    inner = node.get("items", node)
    if "properties" not in inner:
        return
    yield path
    for name, member in inner["properties"].items():
        yield from _blocks(f"{path}.{name}", member)
