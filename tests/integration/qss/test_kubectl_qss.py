"""`kubectl qss`: the commands of `qss` with the options of kubectl. A script plays kubectl."""

import json
import os
import signal
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest

from qss_client.cli.plugin import main
from qss_client.http.sync_http import SyncHttp
from qss_core.model import Epoch, Ordinal, PartitionConfiguration, PartitionId
from qss_operator.planning.model import (
    Condition,
    ConditionStatus,
    ConditionType,
    Endpoints,
    StoreStatus,
)
from qss_operator.resources.status_document import encode_status
from qss_testing.clients.terminal import Program
from qss_testing.page_commands import outputs_of_page
from qss_testing.pods.pod_process import PodCluster

PAGE = outputs_of_page("store-pod/docs/command-line.md")
STATUS = StoreStatus(
    ready="2/2",
    assigned="4/4",
    format="Timestamped",
    endpoints=Endpoints(query="http://words.shop.svc:8080", pods=()),
    assignment=(
        PartitionConfiguration(
            partition=PartitionId(0),
            epoch=Epoch(1),
            active=Ordinal(0),
            in_sync=(Ordinal(0),),
            replicas=(Ordinal(0),),
        ),
    ),
    conditions=(
        Condition(
            type=ConditionType.READY,
            status=ConditionStatus.TRUE,
            reason="Serving",
            message="all 4 partitions are served",
            last_transition_time="2026-11-27T09:00:00Z",
            observed_generation=1,
        ),
    ),
)


def resource(name: str, **members: Any) -> dict[str, Any]:
    """A resource as the API server has it; the store checks no callers."""
    return {
        "metadata": {"name": name, "namespace": "shop"},
        "spec": {"access": {"authentication": "None"}},
        **members,
    }


class Plugin(Program):
    """Runs `kubectl qss` in this process; `file` is the script in the place of kubectl."""

    def __init__(self, file: Path, capture: pytest.CaptureFixture[str]) -> None:
        super().__init__(main, capture)
        self.file = file

    def asked(self) -> list[str]:
        """The arguments of each call of kubectl."""
        return Path(f"{self.file}.asked").read_text().splitlines()


@pytest.fixture
def plugin(
    odd_words: PodCluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Plugin:
    query, internal = odd_words.pods[0].ports[:2]
    words, new = resource("words", status=encode_status(STATUS)), resource("new")
    file = tmp_path / "kubectl"
    file.write_text(
        f"""#!/bin/sh
echo "$@" >> {file}.asked
case "$*" in
  *"config view"*) printf shop;;
  *"get queryablestatestores words "*) echo '{json.dumps(words)}';;
  *"get queryablestatestores --output=json"*) echo '{json.dumps({"items": [new, words]})}';;
  *" get "*) echo 'Error from server (NotFound): no such store' >&2; exit 1;;
  *" :8080") echo 'Forwarding from 127.0.0.1:{query} -> 8080'; exec sleep 60;;
  *" :8081") echo 'Forwarding from 127.0.0.1:{internal} -> 8081'; exec sleep 60;;
esac
"""
    )
    file.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    return Plugin(file, capsys)


def test_kubectl_finds_the_program_beside_that_of_qss() -> None:
    # `kubectl plugin list` lists the executable files on the path whose names begin with kubectl-.
    (entry,) = entry_points(group="console_scripts", name="kubectl-qss")
    assert entry.load() is main
    assert os.access(Path(sys.executable).with_name("kubectl-qss"), os.X_OK)


def test_a_row_is_read_in_the_namespace_of_the_context(plugin: Plugin) -> None:
    expected = PAGE["kubectl qss get words a1 -n shop"]
    assert plugin.run("get", "words", "a1").out == expected
    first, *others = plugin.asked()
    assert first == "config view --minify --output=jsonpath={..namespace}"
    assert all(line.startswith("--namespace shop ") for line in others)


def test_the_options_of_kubectl_are_passed_to_each_call_of_it(plugin: Plugin) -> None:
    given = ("--context", "far", "--kubeconfig", "some/file", "-n", "shop")
    assert [row["key"] for row in plugin.json("get", "words", "a1", *given)] == ["a1"]
    calls = plugin.asked()
    assert len(calls) == 2
    options = "--context far --kubeconfig some/file --namespace shop "
    assert all(line.startswith(options) for line in calls)


def test_the_commands_are_those_of_qss(plugin: Plugin) -> None:
    inside = ("-n", "shop")
    assert [row["key"] for row in plugin.json("scan", "words", "--prefix", "a", *inside)]
    (answer,) = plugin.json("query", "words", "KeyQuery", "key=a1", *inside)
    assert answer["result"] == {"key": "a1", "value": {"n": 1}}
    assert [one["name"] for one in plugin.json("writers", "words", *inside)] == ["test"]
    assert plugin.run("count", "words", "--exact", *inside).out.strip().isdigit()
    described = plugin.json("describe", "words", *inside)
    assert described["notes"] == []
    told = {(one["pod"], one["state"]) for one in described["replicas"]}
    assert told == {("words-0", "serving"), ("words-1", "serving")}


def test_top_shows_all_pods_through_the_port_of_one(plugin: Plugin) -> None:
    given = ("top", "words", "-n", "shop", "--interval", "0.5", "--limit", "1", "-o", "ndjson")
    (screen,) = (json.loads(line) for line in plugin.run(*given).out.splitlines())
    assert [one["state"] for one in screen["pods"]] == ["answers", "answers"]
    assert [one["state"] for one in screen["partitions"]] == ["serving"] * 4
    assert (screen["rowsPerSecond"], screen["readsPerSecond"]) == (0.0, 0.0)


def test_a_store_that_does_not_exist_is_not_found(plugin: Plugin) -> None:
    done = plugin.run("get", "other", "a1", "-n", "shop")
    assert (done.code, done.out) == (3, "")
    assert "STORE_NOT_FOUND: no store other in the namespace shop" in done.err
    assert plugin.run("status", "other", "-n", "shop").code == 3


def test_the_status_of_a_store_is_that_of_its_resource(plugin: Plugin) -> None:
    expected = PAGE["kubectl qss status words -n shop"]
    assert plugin.run("status", "words", "-n", "shop").out == expected
    assert plugin.json("status", "words")["status"] == json.loads(json.dumps(encode_status(STATUS)))


def test_the_stores_of_a_namespace_have_a_line_each(plugin: Plugin) -> None:
    lines = plugin.run("status").out.splitlines()
    assert [line.split()[0] for line in lines] == ["NAME", "new", "words"]
    assert [one["metadata"]["name"] for one in plugin.json("status")["items"]] == ["new", "words"]


def test_a_status_of_another_version_is_told(plugin: Plugin) -> None:
    plugin.file.write_text(plugin.file.read_text().replace('"ready": "2/2"', '"ready": 2'))
    done = plugin.run("status", "words", "-n", "shop")
    assert done.code == 1
    assert "operator and `kubectl qss` are of different versions" in done.err


def test_a_kubeconfig_without_a_context_asks_for_the_namespace(plugin: Plugin) -> None:
    plugin.file.write_text("#!/bin/sh\necho 'error: current-context must exist' >&2\nexit 1\n")
    done = plugin.run("get", "words", "a1")
    assert "KUBECTL: kubectl: error: current-context must exist; give the namespace with -n" in (
        done.err
    )


def test_a_code_is_explained_without_a_cluster(plugin: Plugin) -> None:
    assert plugin.run("explain", "NOT_READY").out.startswith("NOT_READY\n")
    assert not Path(f"{plugin.file}.asked").exists()


def test_stores_are_listed_by_kubectl_itself(plugin: Plugin) -> None:
    done = plugin.run("stores")
    assert done.code == 2
    assert "No such command" in done.err


def test_the_console_is_behind_the_forwarded_port_until_the_command_is_ended(
    plugin: Plugin,
) -> None:
    program = str(Path(sys.executable).with_name("kubectl-qss"))
    process = subprocess.Popen(
        [program, "console", "words", "-n", "shop", "--no-browser"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    address = process.stdout.readline().strip()
    told = "this command passes the requests of the page on; Ctrl-C ends it\n"
    assert process.stderr.readline() == told
    page, _, code = address.partition("#code=")
    http = SyncHttp()
    assert b"main.js" in http.request("GET", page).body
    opened = json.loads(http.request("POST", f"{page}session", body=code.encode()).body)
    http.close()
    # What the page gives to copy: by the name, without a token, and at the forwarded port.
    assert (opened["kubectl"], opened["token"]) == (["-n", "shop"], False)
    assert opened["pod"].startswith("http://127.0.0.1:")
    assert not page.startswith(opened["pod"])
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=30) == 130
    assert process.stdout.read() == ""
    process.stdout.close()
    process.stderr.close()
