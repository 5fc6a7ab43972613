"""Resources that the CRD refuses, each with the reason, and resources that it accepts.

The `expect` of a refused resource has `field`, the path of the refused field; `rule`, the whole
message if a CEL rule refuses it; and `says`, which our own message must contain.
"""

from pathlib import Path
from typing import Any

import pytest
import yaml

from qss_operator.resources.validation import check_resource

HERE = Path(__file__).parent
BAD = sorted((HERE / "bad_resources").glob("*.yaml"))
GOOD = sorted((HERE / "good_resources").glob("*.yaml"))


def load(file: Path) -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load(file.read_text())
    return content


def stored(case: dict[str, Any]) -> Any:
    """The old resource as it would be stored: with its defaults."""
    if "old" not in case:
        return None
    old, problems = check_resource(case["old"])
    assert problems == []
    return old


@pytest.mark.parametrize("file", BAD, ids=lambda file: file.stem)
def test_a_bad_resource_is_refused_with_its_reason(file: Path) -> None:
    case = load(file)
    expected = case["expect"]
    _, problems = check_resource(case["resource"], stored(case))
    found = [problem for problem in problems if problem.path == expected["field"]]
    assert found, [str(problem) for problem in problems]
    if "rule" in expected:
        # A hint may follow the rule's own words.
        assert any(problem.message.startswith(expected["rule"]) for problem in found), found
    for fragment in expected.get("says", ()):
        assert fragment in found[0].message


@pytest.mark.parametrize("file", GOOD, ids=lambda file: file.stem)
def test_a_good_resource_is_taken(file: Path) -> None:
    case = load(file)
    _, problems = check_resource(case["resource"], stored(case))
    assert [str(problem) for problem in problems] == []


def test_every_rule_of_the_crd_has_a_bad_resource() -> None:
    crd = yaml.safe_load((HERE.parents[1] / "crds" / "queryablestatestores.yaml").read_text())
    messages: set[str] = set()

    def collect(node: Any) -> None:
        if isinstance(node, dict):
            messages.update(rule["message"] for rule in node.get("x-kubernetes-validations", ()))
            for member in node.values():
                collect(member)
        elif isinstance(node, list):
            for item in node:
                collect(item)

    collect(crd)
    tried = {load(file)["expect"].get("rule") for file in BAD}
    assert messages - tried == set()
