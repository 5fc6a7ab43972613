"""`qss console` finds the page, and stands between a browser and a pod that asks for tokens."""

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest

from qss_client.cli.console.gateway import gateway
from qss_client.cli.main import main
from qss_client.http.sync_http import SyncHttp
from qss_testing.clients.terminal import Terminal
from qss_testing.fakes.reviewer import Reviewer, make_token
from qss_testing.pods.guarded import READER, guarded, rights
from qss_testing.pods.pod_process import PodCluster
from qss_testing.waiting import wait_until

Headers = Mapping[str, str]
NONE: Headers = {}


@pytest.fixture
def checked(tmp_path: Path) -> Iterator[PodCluster]:
    """A pod that asks for tokens."""
    with Reviewer(rights()) as reviewer, guarded(tmp_path, reviewer) as cluster:
        yield cluster


def ask(
    host: str, method: str, path: str, body: bytes | None = None, headers: Headers = NONE
) -> tuple[int, bytes, str]:
    """Status, body and content type of an answer."""
    connection = http.client.HTTPConnection(host, timeout=30)
    try:
        connection.request(method, path, body, dict(headers))
        answer = connection.getresponse()
        return answer.status, answer.read(), answer.headers["Content-Type"]
    finally:
        connection.close()


def test_the_address_of_the_page_is_printed(odd_words: PodCluster, terminal: Terminal) -> None:
    for store in (("words",), ()):
        done = terminal.run("console", *store, "--no-browser")
        assert (done.code, done.out) == (0, f"{odd_words.url}/console/\n")


def test_a_pod_without_a_console_is_told(tmp_path: Path, terminal: Terminal) -> None:
    with PodCluster(tmp_path, environment={"QSS_CONSOLE": "0"}) as cluster:
        done = terminal.run("console", "words", "--no-browser", "--url", cluster.url)
    assert (done.code, done.out) == (3, "")
    assert "has no console: its store says spec.access.console: false" in done.err
    assert "QSS_CONSOLE=0" in done.err.replace("\n", " ")


def test_without_a_name_the_store_has_to_be_the_only_one(
    terminal: Terminal, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("birds", "words"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "status.yaml").write_text("")
    with pytest.raises(SystemExit) as ended:
        main(["console", "--no-browser", "--state-dir", str(tmp_path)])
    assert ended.value.code == 2
    assert "name the store: one of birds, words" in capsys.readouterr().err


def test_the_browser_gets_a_session_once_and_never_the_token(checked: PodCluster) -> None:
    token = make_token(READER)
    pod = SyncHttp(token)
    with gateway(pod, checked.url, 10.0) as address:
        host, _, code = address.removeprefix("http://").partition("/console/#code=")
        status, page, media = ask(host, "GET", "/console/")
        assert (status, media) == (200, "text/html; charset=utf-8")
        assert b"main.js" in page
        assert ask(host, "GET", "/state/stores")[0] == 401
        assert ask(host, "POST", "/console/session", b"guess")[0] == 403
        status, body, _ = ask(host, "POST", "/console/session", code.encode())
        session = json.loads(body)["session"]
        assert ask(host, "POST", "/console/session", code.encode())[0] == 403, "only once"
        shown = {"Authorization": f"Bearer {session}"}
        status, body, _ = ask(host, "GET", "/state/stores", headers=shown)
        assert json.loads(body) == {"stores": [{"name": "words", "type": "KeyValue"}]}
        query = json.dumps({"query": {"type": "CountQuery"}}).encode()
        status, body, _ = ask(host, "POST", "/state/query/words", query, headers=shown)
        assert (status, len(json.loads(body)["partitionResults"])) == (200, 4)
        status, body, media = ask(host, "GET", "/state/stores/words/none", headers=shown)
        assert (status, media) == (404, "application/problem+json")
        assert json.loads(body)["code"] == "KEY_NOT_FOUND"
        for path in ("/", "/changelog/stores/words/writers", "//evil.example/"):
            assert ask(host, "GET", path, headers=shown)[0] == 404
        assert ask(host, "GET", "/console/", headers={"Host": "evil.example"})[0] == 403
        assert ask(host, "GET", "/console/", headers={"Origin": "http://evil.example"})[0] == 403
        for length in ("300000", "\u00b2", "-1"):
            wrong = {**shown, "Content-Length": length}
            assert ask(host, "POST", "/state/query/words", b"{}", headers=wrong)[0] == 413
        assert token not in address
    pod.close()


def test_the_line_of_the_browser_has_no_code(checked: PodCluster, tmp_path: Path) -> None:
    """Every user of the machine sees the lines of all processes."""
    seen = tmp_path / "seen"
    token_file = tmp_path / "token"
    token_file.write_text(make_token(READER))
    browser = tmp_path / "browser"
    browser.write_text(
        f"#!{sys.executable}\nimport os, sys\npath = sys.argv[1].removeprefix('file://')\n"
        f"mode = oct(os.stat(path).st_mode)[-4:]\ntold = [sys.argv[1], mode, open(path).read()]\n"
        f"open('{seen}.draft', 'w').write('\\n'.join(told))\nos.rename('{seen}.draft', '{seen}')\n"
    )
    browser.chmod(0o700)
    command = [sys.executable, "-m", "qss_client", "console", "words", "--url", checked.url]
    process = subprocess.Popen(
        [*command, "--token-file", str(token_file)],
        env={**os.environ, "BROWSER": f"{browser} %s"},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    with process:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        wait_until(seen.exists, 30.0)
        url, mode, page = seen.read_text().split("\n", 2)
        process.send_signal(signal.SIGINT)
    assert url.startswith("file:///")
    assert "code" not in url
    assert mode == "0600"
    assert f'content="0; url={address}"' in page
    assert "/console/#code=" in address
    assert not Path(url.removeprefix("file://")).exists(), "it goes with the command"


def test_a_refusal_tells_that_it_closes_the_connection(checked: PodCluster) -> None:
    """Else the browser would send its next request into a connection that is closed."""
    pod = SyncHttp(make_token(READER))
    with gateway(pod, checked.url, 10.0) as address:
        host = address.removeprefix("http://").partition("/console/#code=")[0]
        connection = http.client.HTTPConnection(host, timeout=30)
        for path, status, told in (("/console/", 200, None), ("/state/stores", 401, "close")):
            connection.request("GET", path)
            answer = connection.getresponse()
            answer.read()
            assert (answer.status, answer.headers["Connection"]) == (status, told)
        connection.close()
    pod.close()


def test_no_path_leads_out_of_the_page_without_the_session(checked: PodCluster) -> None:
    pod = SyncHttp(make_token(READER))
    with gateway(pod, checked.url, 10.0) as address:
        host = address.removeprefix("http://").partition("/console/#code=")[0]
        for path in (
            "/console/../state/stores",
            "/console/./../state/stores",
            "/console/vendor/..%2F../../state/stores",
            "/console/%2e%2e/state/stores",
            "/console/..",
        ):
            assert ask(host, "GET", path)[0] == 404, path
        assert ask(host, "POST", "/console/main.js", b"{}")[0] == 404
    pod.close()


def test_connections_beyond_the_limit_are_refused_at_once(checked: PodCluster) -> None:
    pod = SyncHttp(make_token(READER))
    with gateway(pod, checked.url, 10.0) as address, ExitStack() as held:
        host = address.removeprefix("http://").partition("/console/#code=")[0]
        name, _, port = host.partition(":")
        idle = [socket.create_connection((name, int(port)), timeout=30) for _ in range(32)]
        for one in idle:
            held.enter_context(one)
        with socket.create_connection((name, int(port)), timeout=30) as further:
            answer = b"".join(iter(lambda: further.recv(4096), b""))
        head, _, body = answer.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 429 ")
        problem = json.loads(body)
        assert problem["code"] == "LIMIT_EXCEEDED"
        assert "32 connections" in problem["detail"]
        idle[0].close()
        # The thread of the closed connection has to end first.
        wait_until(lambda: status_of(host) == 200, 30.0)
    pod.close()


def status_of(host: str) -> int:
    """The status of the page; 0 where the connection broke off before."""
    try:
        return ask(host, "GET", "/console/")[0]
    except OSError:
        return 0
