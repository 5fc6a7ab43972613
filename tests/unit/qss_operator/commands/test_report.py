"""`kubectl qss report` and `kubectl qss logs`; a script plays kubectl."""

import json
import os
import stat
import tarfile
from pathlib import Path
from typing import Any

import pytest

from qss_client.cli.plugin import main
from qss_operator.commands.report.redaction import redacted_object, redacted_text
from qss_testing.clients.terminal import Program
from qss_testing.page_commands import outputs_of_page

TOKEN = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJ4In0.c2ln"
RESOURCE = {
    "metadata": {
        "name": "words",
        "managedFields": ["long"],
        "annotations": {
            "kubectl.kubernetes.io/last-applied-configuration": "env: geheim",
            "example.org/applied": '{"env":[{"name":"DB_PASSWORD","value":"geheim"}]}',
            "example.org/login": '{"password": "geheim"}',
            "example.org/note": "stays",
        },
    },
    "spec": {"pod": {"env": [{"name": "QSS_X", "value": "geheim"}]}},
    "status": {"ready": "2/2"},
}
OBJECTS: dict[str, Any] = {
    "items": [
        {"kind": "Pod", "metadata": {"name": "words-0"}},
        {"kind": "Pod", "metadata": {"name": "words-1"}},
        {"kind": "Service", "metadata": {"name": "words"}},
    ]
}
EVENTS = {
    "items": [
        {"involvedObject": {"name": "words-1"}, "reason": "B", "lastTimestamp": "2"},
        {"involvedObject": {"name": "words"}, "reason": "A", "lastTimestamp": "1"},
        {"involvedObject": {"name": "other-1"}, "reason": "C"},
    ]
}
LOG = (
    "no UTF-8 \\377\\nGET /state/stores/words/geheim?from=geheim 200\n"
    f"Authorization: Bearer {TOKEN}\n"
)


@pytest.fixture
def plugin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Program:
    file = tmp_path / "kubectl"
    file.write_text(
        f"""#!/bin/sh
echo "$@" >> {file}.asked
case "$*" in
  *"get queryablestatestores words "*) echo '{json.dumps(RESOURCE)}';;
  *"get queryablestatestores"*) echo 'Error from server (NotFound): no' >&2; exit 1;;
  *"get statefulsets,"*) echo '{json.dumps(OBJECTS)}';;
  *"get events"*) echo '{json.dumps(EVENTS)}';;
  *"logs words-0"*--previous) echo 'Error: no process before' >&2; exit 1;;
  *"logs --selector"*) echo '[pod/words-0/store] began'; exit 3;;
  *logs*) printf '{LOG}';;
  *words-1:8082/proxy*) echo 'Error from server (Forbidden): pods/proxy' >&2; exit 1;;
  *words-0:8082/proxy*) echo 'qss_commits_total 1.0';;
esac
"""
    )
    file.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.chdir(tmp_path)
    return Program(main, capsys)


def read(path: Path) -> dict[str, str]:
    """The texts in an archive, by the names of its files."""
    with tarfile.open(path) as archive:
        found = {one.name: archive.extractfile(one) for one in archive.getmembers()}
        return {name: file.read().decode() for name, file in found.items() if file is not None}


def test_a_report_has_all_parts_and_no_secrets(plugin: Program, tmp_path: Path) -> None:
    done = plugin.run("report", "words", "-n", "shop")
    page = outputs_of_page("store-pod/docs/command-line.md")
    assert (done.code, done.out) == (0, page["kubectl qss report words -n shop"])
    path = tmp_path / "words-report.tar.gz"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    files = read(path)
    assert sorted(name.removeprefix("words-report/") for name in files) == [
        "README.txt",
        "events.json",
        "logs/words-0.log",
        "logs/words-1.before.log",
        "logs/words-1.log",
        "metrics/words-0.txt",
        "objects.json",
        "resource.json",
    ]
    everything = "".join(files.values())
    assert "geheim" not in everything
    assert TOKEN not in everything
    resource = json.loads(files["words-report/resource.json"])
    assert resource["status"] == {"ready": "2/2"}
    assert resource["metadata"]["annotations"]["example.org/note"] == "stays"
    assert "no UTF-8 \ufffd" in files["words-report/logs/words-1.log"]
    events = json.loads(files["words-report/events.json"])
    assert [one["reason"] for one in events] == ["A", "B"]
    readme = files["words-report/README.txt"]
    assert "logs/words-0.before.log: kubectl: Error: no process before" in readme
    assert "metrics/words-1.txt: kubectl: Error from server (Forbidden): pods/proxy" in readme
    assert "not in the report: metrics/words-1.txt" in done.err
    asked = (tmp_path / "kubectl.asked").read_text()
    assert "secret" not in asked.lower()
    again = plugin.run("report", "words", "-n", "shop")
    assert (again.code, again.out) == (2, "")
    assert "give another path by --file" in again.err


def test_a_report_on_no_store_writes_no_file(plugin: Program, tmp_path: Path) -> None:
    done = plugin.run("report", "other", "-n", "shop")
    assert done.code == 3
    assert "STORE_NOT_FOUND" in done.err
    assert not (tmp_path / "other-report.tar.gz").exists()


@pytest.mark.parametrize("file", ["none/report.tar.gz", "."])
def test_a_file_that_cannot_be_written_is_told_before_the_cluster_is_asked(
    plugin: Program, tmp_path: Path, file: str
) -> None:
    done = plugin.run("report", "words", "-n", "shop", "--file", file)
    assert (done.code, done.out) == (2, "")
    assert "--file" in done.err
    assert not (tmp_path / "kubectl.asked").exists()


def test_logs_are_those_of_kubectl_with_its_exit_code(plugin: Program, tmp_path: Path) -> None:
    given = ("-n", "shop", "--context", "far", "--since", "1h")
    assert plugin.run("logs", "words", "--follow", *given).code == 3
    assert plugin.run("logs", "words", "--pod", "words-1", "--previous", "-n", "shop").code == 0
    assert (tmp_path / "kubectl.asked").read_text().splitlines() == [
        "--context far --namespace shop logs --selector=queryablestate.dev/store=words "
        "--max-log-requests=100 --prefix --tail=100 --follow --since=1h",
        "--namespace shop logs words-1 --prefix --tail=100 --previous",
    ]
    assert "no pod of store words" in plugin.run("logs", "words", "--pod", "x-1", "-n", "shop").err
    assert "leave out --output" in plugin.run("logs", "words", "-o", "json", "-n", "shop").err


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"token={TOKEN}", "token=(removed)"),
        ("Basic dXNlcjpwYXNz", "Basic (removed)"),
        ('"password": "x y"', '"password": (removed)'),
        (r"{\"password\": \"x y\"}", r"{\"password\": (removed)}"),
        ("authorization: Token x", "authorization: (removed)"),
        ("postgres://user:geheim@db/x", "postgres://(removed)@db/x"),
        ("GET /state/windows/words/a%20b HTTP/1.1", "GET /state/windows/words/(removed) HTTP/1.1"),
        ("/state/stores/words?prefix=a 200", "/state/stores/words?(removed) 200"),
        ("/state/stores/words 200", "/state/stores/words 200"),
    ],
)
def test_tokens_and_keys_are_removed_from_lines(text: str, expected: str) -> None:
    assert redacted_text(text) == expected


def test_a_variable_keeps_its_name_and_its_source() -> None:
    source = {"name": "B", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}
    found = redacted_object({"env": [{"name": "A", "value": "1"}, source], "n": [1, None, "x"]})
    assert found == {"env": [{"name": "A", "value": "(removed)"}, source], "n": [1, None, "x"]}
