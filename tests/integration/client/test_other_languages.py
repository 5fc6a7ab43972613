"""The clients of the page of other languages, against real pods.

Each runs where its programs are installed; elsewhere the tests read its file on the page alone.
"""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from qss_client.store import Store
from qss_core.positions import Position, encode_token
from qss_testing.fakes.reviewer import Reviewer, make_token
from qss_testing.page_commands import ROOT, outputs_of_page, words_of
from qss_testing.pods.certificates import Authority
from qss_testing.pods.guarded import BOTH, guarded, metric, rights
from qss_testing.pods.pod_process import PodCluster
from qss_testing.waiting import wait_until
from qss_testing.writers.writer import Record, Writer

pytestmark = pytest.mark.long

PAGE = "store-pod/docs/other-languages.md"
CLIENTS = ROOT / "store-pod/docs/clients"
NEEDS = {"reader.sh": "curl", "reader.mjs": "node", "Reader.java": "javac"}
HERE = [name for name, program in NEEDS.items() if shutil.which(program)]
ODD_KEY = "a/b ü%+"
LARGE = 2**53 + 1  # A float64 has no such number.
ROWS = {f"al{number}": {"n": number} for number in range(8)}
_STARTS = {"bash": "reader.sh", "node": "reader.mjs", "java": "Reader.java"}


class Client:
    """A client's program, as a child process for one question."""

    def __init__(self, command: list[str], cluster: PodCluster) -> None:
        self._program = command
        self._command = [*command, cluster.url, cluster.store]

    def of(self, cluster: PodCluster) -> "Client":
        """The same program for another store."""
        return Client(self._program, cluster)

    def ask(self, *question: str, **settings: str) -> subprocess.CompletedProcess[str]:
        """Runs the program; `settings` are those of the page, as variables of its environment."""
        return subprocess.run(
            [*self._command, *question],
            env={**os.environ, **settings},
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )

    def rows(self, *question: str, **settings: str) -> list[object]:
        """The JSON lines of a program that has to succeed."""
        done = self.ask(*question, **settings)
        assert done.returncode == 0, done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PodCluster]:
    """Two pods, so that the one that a client asks has half of the partitions."""
    with PodCluster(tmp_path_factory.mktemp("languages"), pods=2) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def writer(cluster: PodCluster) -> Iterator[Writer]:
    with Writer(cluster.url, cluster.store) as writer:
        time = 1795780336790
        rows = {"alice": {"n": 1}, "bob": {"n": 2}, **ROWS, ODD_KEY: "odd", "large": LARGE}
        writer.write([Record(key, value, time) for key, value in rows.items()])
        yield writer


@pytest.fixture(scope="module")
def classes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The compiled client of Java: one compiler for all of its processes."""
    target = tmp_path_factory.mktemp("classes")
    subprocess.run(["javac", "-d", target, CLIENTS / "Reader.java"], check=True, timeout=600)
    return target


@pytest.fixture(params=HERE)
def client(request: pytest.FixtureRequest, cluster: PodCluster, writer: Writer) -> Client:
    command = {"reader.sh": ["bash", "reader.sh"], "reader.mjs": ["node", "reader.mjs"]}
    if request.param == "Reader.java":
        classes = request.getfixturevalue("classes")
        return Client(["java", "-XX:TieredStopAtLevel=1", "-cp", str(classes), "Reader"], cluster)
    program, file = command[request.param]
    return Client([program, str(CLIENTS / file)], cluster)


@pytest.fixture(scope="module")
def guarded_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PodCluster]:
    """A pod that speaks https and checks tokens; `ca.crt` and `token` lie beside its volume."""
    directory = tmp_path_factory.mktemp("guarded")
    authority = Authority.make(directory / "authority")
    (directory / "ca.crt").write_bytes(authority.file.read_bytes())
    (directory / "token").write_text(make_token(BOTH) + "\n")
    tls = ("--tls-dir", str(authority.issue(directory / "tls")))
    trust = authority.file
    with (
        Reviewer(rights()) as reviewer,
        guarded(directory, reviewer, tls, operator={"ca_file": trust}) as cluster,
    ):
        url, token = cluster.pods[0].internal, make_token(BOTH)
        with Writer(url, cluster.store, token=token, ca_file=trust) as writer:
            writer.write([Record("alice", {"n": 1}, 1000)])
        yield cluster


def answers(cluster: PodCluster, route: str, status: str) -> float:
    """The number of answers of the first pod by its metrics."""
    labels = f'listener="query",route="{route}",status="{status}"'
    return metric(cluster.pods[0], f"qss_requests_total{{{labels}}}")


@pytest.mark.parametrize("name", NEEDS)
def test_the_page_shows_the_client(name: str) -> None:
    text = (ROOT / PAGE).read_text()
    assert f"\n{(CLIENTS / name).read_text()}```\n" in text
    assert f"clients/{name}" in text


@pytest.mark.parametrize("name", NEEDS)
def test_a_client_has_the_number_of_lines_that_the_page_promises(name: str) -> None:
    lines = [line.strip() for line in (CLIENTS / name).read_text().splitlines()]
    others = ("#", "//", "/**", "import ")
    assert "at most 40 lines of code" in (ROOT / PAGE).read_text()
    assert len([one for one in lines if re.search(r"\w", one) and not one.startswith(others)]) <= 40


def test_the_page_prints_what_the_clients_print(cluster: PodCluster, writer: Writer) -> None:
    for command, output in outputs_of_page(PAGE).items():
        program = next(word for word in command.split() if word in _STARTS)
        if _STARTS[program] not in HERE:
            continue
        done = subprocess.run(
            ["bash", "-c", f"exec 2>&1; {command}"],
            cwd=CLIENTS,
            env={**os.environ, "URL": cluster.url},
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        assert words_of(done.stdout) == words_of(output), command


def test_a_client_reads_keys_and_pages(client: Client, cluster: PodCluster) -> None:
    (row,) = client.rows("get", ODD_KEY)
    assert row == {"key": ODD_KEY, "value": "odd", "timestamp": 1795780336790}
    assert client.rows("get", "never written") == [None]
    large = {"key": "large", "value": LARGE, "timestamp": 1795780336790}
    assert client.rows("get", "large") == client.rows("scan", "lar") == [large]
    with Store(cluster.url, cluster.store) as store:
        rows = {row.key: row.value for row in store.prefix("al")}
    found = client.rows("scan", "al", QSS_LIMIT="3")
    assert {row["key"]: row["value"] for row in found if isinstance(row, dict)} == rows
    assert len(found) == len(rows)


def test_a_client_waits_for_a_position_and_for_a_pod(
    client: Client, cluster: PodCluster, writer: Writer
) -> None:
    bound = encode_token(Position.from_json({"@batch.test": {"1": writer.batch}}))
    key, scan = "/state/stores/{store}/{key}", "/state/stores/{store}"
    with ThreadPoolExecutor(1) as threads:
        refused = answers(cluster, key, "503")
        found = threads.submit(client.rows, "get", "newer", QSS_POSITION=bound)
        wait_until(lambda: answers(cluster, key, "503") > refused)
        writer.write([Record("newer", writer.batch, 1000)])
        assert found.result() == [{"key": "newer", "value": writer.batch - 1, "timestamp": 1000}]

        cluster.pods[1].kill()
        answered = answers(cluster, scan, "200")
        found = threads.submit(client.rows, "scan", "al")
        wait_until(lambda: answers(cluster, scan, "200") > answered)
        cluster.pods[1].start()
        rows = found.result()
    assert sorted(row["key"] for row in rows if isinstance(row, dict)) == sorted([*ROWS, "alice"])


def test_a_client_gives_up_at_its_deadline_with_the_code(client: Client) -> None:
    never = encode_token(Position.from_json({"@batch.test": {"1": 1_000_000}}))
    settings = {"QSS_POSITION": never, "QSS_DEADLINE_S": "3"}
    questions = (("get", "al1"), ("scan", "al"))
    with ThreadPoolExecutor(2) as threads:
        for done in threads.map(lambda one: client.ask(*one, **settings), questions):
            assert (done.returncode, done.stdout) == (1, "")
            assert "NOT_UP_TO_BOUND" in done.stderr
    done = client.ask("get", "")
    assert done.returncode == 1
    assert "MALFORMED_REQUEST" in done.stderr


def noting_curl(directory: Path) -> Path:
    """A folder with a `curl` that appends its arguments to the file `arguments` in `directory`."""
    folder = directory / "bin"
    folder.mkdir()
    program = folder / "curl"
    noting = f'#!/bin/sh\nprintf "%s\\n" "$@" >>"{directory}/arguments"\n'
    program.write_text(f'{noting}exec {shutil.which("curl")} "$@"\n')
    program.chmod(0o755)
    return folder


def test_a_client_shows_its_token_and_checks_certificates(
    client: Client, guarded_cluster: PodCluster, tmp_path: Path
) -> None:
    directory = guarded_cluster.pods[0].volume.parent
    authority, token = directory / "ca.crt", str(directory / "token")
    trust = {"CURL_CA_BUNDLE": str(authority), "NODE_EXTRA_CA_CERTS": str(authority)}
    if shutil.which("keytool"):
        store = tmp_path / "trust"
        entry = ("-importcert", "-noprompt", "-file", authority, "-storepass", "changeit")
        keytool = ("keytool", *entry, "-keystore", store)
        subprocess.run(keytool, check=True, capture_output=True, timeout=600)
        option = "-Djavax.net.ssl.trustStore"
        trust["JDK_JAVA_OPTIONS"] = f"{option}={store} {option}Password=changeit"
    checked = client.of(guarded_cluster)
    noted = {"PATH": f"{noting_curl(tmp_path)}:{os.environ['PATH']}"}
    (row,) = checked.rows("get", "alice", QSS_TOKEN_FILE=token, **trust, **noted)
    assert row == {"key": "alice", "value": {"n": 1}, "timestamp": 1000}
    # The arguments of a process are for all users of a machine.
    shown = "".join(one.read_text() for one in tmp_path.glob("arguments"))
    assert Path(token).read_text().strip() not in shown
    done = checked.ask("get", "alice", **trust)
    assert (done.returncode, done.stdout) == (1, "")
    assert "UNAUTHENTICATED" in done.stderr
    done = checked.ask("get", "alice", QSS_TOKEN_FILE=token, QSS_DEADLINE_S="10")
    assert (done.returncode, done.stdout) == (1, "")
    assert "certifica" in done.stderr
