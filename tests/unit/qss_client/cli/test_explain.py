"""`qss explain`: error codes, and the fields of the resource without Kubernetes."""

import pytest

from qss_client.cli.main import main
from qss_core.codes.catalogue import EXPLANATIONS
from qss_operator.resources.crd import resource_schema


def explained(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main(["explain", *arguments])
    out, err = capsys.readouterr()
    assert ended.value.code is None or isinstance(ended.value.code, int)
    return ended.value.code or 0, out, err


@pytest.mark.parametrize(
    "code", ["NOT_UP_TO_BOUND", "tag:queryablestate.dev,2026:error:not_up_to_bound"]
)
def test_a_code_is_explained(code: str, capsys: pytest.CaptureFixture[str]) -> None:
    code_of_end, out, err = explained(capsys, code)
    assert (code_of_end, err) == (0, "")
    assert out.startswith("NOT_UP_TO_BOUND\n\nmeans       The replica has not reached")
    told = " ".join(out.split())
    assert EXPLANATIONS["NOT_UP_TO_BOUND"].remedy in told
    assert "503: the same request may succeed later" in told


def test_without_a_topic_all_codes_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = explained(capsys)
    listed = {line.split()[0] for line in out.splitlines() if line.startswith("  ")}
    assert listed == set(EXPLANATIONS)


def test_an_unknown_code_is_answered_with_those_that_are_spelt_alike(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, out, err = explained(capsys, "NOT_REDY")
    assert (code, out) == (2, "")
    assert "no error code is called 'NOT_REDY' (did you mean NOT_READY" in err


def test_a_field_is_explained_from_the_schema(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = explained(capsys, "spec.store.window")
    assert (code, err) == (0, "")
    schema = resource_schema()["properties"]["spec"]["properties"]["store"]["properties"]["window"]
    told = " ".join(out.split())
    assert "KIND: QueryableStateStore" in told
    assert "FIELD: window <Object>" in out
    assert schema["description"] in told
    for name, member in schema["properties"].items():
        assert f"{name} <" in told
        assert member["description"] in told


def test_a_value_is_explained_with_its_default_and_its_limits(
    capsys: pytest.CaptureFixture[str],
) -> None:
    _, out, _ = explained(capsys, "spec.store.format")
    assert "Allowed: Plain, Timestamped, TimestampedWithHeaders, PlainWithHeaders" in out
    _, out, _ = explained(capsys, "qss.spec.partitions")
    assert "Limits: at least 1, at most " in out
    _, out, _ = explained(capsys, "spec.store.type")
    assert "FIELD: type <string> -required-" in out


def test_the_whole_resource_is_listed_as_a_tree(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = explained(capsys, "qss", "--recursive")
    assert "  spec\t<Object> -required-\n" in out
    assert "\n      window\t<Object>\n" in out
    assert "\n        retention\t<string>\n" in out


def test_fields_of_lists_and_maps_are_found(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = explained(capsys, "status.conditions.reason")
    assert "FIELD: reason <string>" in out


def test_an_unknown_field_is_answered_with_those_that_are_there(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, _, err = explained(capsys, "spec.store.windows")
    assert code == 2
    assert "spec.store has no field 'windows': it has " in err
    assert "window" in err.partition("it has ")[2].split(", ")
    code, _, err = explained(capsys, "spec.partitions.number")
    assert "spec.partitions has no field 'number': it has no fields" in err


def test_a_list_is_explained_with_the_rules_of_its_values(
    capsys: pytest.CaptureFixture[str],
) -> None:
    _, out, _ = explained(capsys, "spec.access.allowedOrigins")
    assert "FIELD: allowedOrigins <[]string>" in out
    assert "Limits: at most 16 items" in out
    told = " ".join(out.partition("RULES:")[2].split())
    assert told.startswith("* an origin is http:// or https:// with a host in small letters")
