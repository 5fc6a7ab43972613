"""Stores that a client reaches by `kubectl`; here a script plays kubectl."""

import os
import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from qss_client.cli.options import Place, open_store
from qss_client.kube.connection import store_on_kubernetes
from qss_client.kube.kubectl import KubectlError, KubernetesPlace, forwarded
from qss_core.errors import (
    MalformedRequestError,
    StoreNotFoundError,
    UnauthenticatedError,
    UnreachableError,
)
from qss_testing.waiting import wait_until

PLACE = KubernetesPlace(namespace="shop", store="words")
OPEN = '{"spec": {"access": {"authentication": "None"}}}'
CHECKED = '{"spec": {"access": {"tlsSecretName": "words-tls"}}}'
_NOT_FOUND = "echo 'Error (NotFound): no' >&2; exit 1"
FORWARDS = """
echo 'Forwarding from 127.0.0.1:40123 -> 8080'
i=0
while [ $i -lt 20000 ]; do echo 'Handling connection for 40123'; i=$((i + 1)); done
exec sleep 60
"""
HOLDS = """
import sys
from qss_client.kube.kubectl import KubernetesPlace, forwarded
with forwarded(KubernetesPlace(namespace="shop", store="words")) as found:
    print(found.url, flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def kubectl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "kubectl"
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    return file


def write(file: Path, *, resource: str = OPEN, forward: str = FORWARDS, token: str = "") -> None:
    file.write_text(
        f"""#!/bin/sh
echo "$@" >> {file}.asked
case "$*" in
  *" get "*) {f"printf '%s' '{resource}'" if resource else _NOT_FOUND};;
  *" port-forward "*) {forward};;
  *" create token "*) {token or "echo 'error: forbidden' >&2; exit 1"};;
esac
"""
    )
    file.chmod(file.stat().st_mode | stat.S_IXUSR)


def asked(file: Path) -> list[str]:
    return Path(f"{file}.asked").read_text().splitlines()


def test_a_place_is_namespace_and_store() -> None:
    assert KubernetesPlace.parse("shop/words") == PLACE
    for text in ("words", "shop/", "/words", "a/b/c", "Shop/words", "shop/words;rm"):
        with pytest.raises(MalformedRequestError, match="NAMESPACE/STORE"):
            KubernetesPlace.parse(text)


def test_a_store_that_asks_nobody_is_forwarded_without_a_token(kubectl: Path) -> None:
    write(kubectl)
    with forwarded(PLACE) as found:
        assert found.url == "http://127.0.0.1:40123"
        assert (found.token, found.server_hostname) == (None, None)
    with forwarded(PLACE, service_port=8081):
        pass
    forward = "--namespace shop port-forward --address=127.0.0.1 service/words"
    assert [line for line in asked(kubectl) if "port-forward" in line] == [
        f"{forward} :8080",
        f"{forward} :8081",
    ]


@pytest.mark.parametrize(
    ("told", "audience"), [("", "queryablestate.dev/shop/words"), ("all", "all")]
)
def test_a_store_that_checks_its_callers_gets_a_token_of_its_audience_once(
    kubectl: Path, told: str, audience: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QSS_TOKEN_AUDIENCE", told)
    write(kubectl, resource=CHECKED, token="echo abc")
    with forwarded(PLACE, "reader") as found:
        assert found.url == "https://127.0.0.1:40123"
        assert found.server_hostname == "words.shop.svc"
        assert found.token is not None
        assert [found.token(), found.token()] == ["abc", "abc"]
    tokens = [line for line in asked(kubectl) if "create token" in line]
    assert tokens == [f"--namespace shop create token reader --audience={audience} --duration=600s"]


def test_who_has_a_token_asks_for_none(kubectl: Path) -> None:
    write(kubectl, resource='{"spec": {}}', token="echo other")
    with forwarded(PLACE, None) as found:
        assert found.token is None
    with store_on_kubernetes("shop/words", token="mine"):
        pass
    assert [line for line in asked(kubectl) if "create token" in line] == []


@pytest.mark.parametrize("given", [{"QSS_TOKEN": "mine"}, {"QSS_TOKEN_FILE": "/run/token"}])
def test_the_command_shows_the_token_that_it_was_given(
    kubectl: Path, monkeypatch: pytest.MonkeyPatch, given: dict[str, str]
) -> None:
    write(kubectl, resource='{"spec": {}}', token="echo other")
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    with open_store("shop/words", on_kubernetes(), 1.0):
        pass
    assert [line for line in asked(kubectl) if "create token" in line] == []


def test_a_url_beside_a_name_on_kubernetes_is_refused(kubectl: Path) -> None:
    write(kubectl)
    place = replace(on_kubernetes(), url="http://pod")
    with (
        pytest.raises(MalformedRequestError, match="leave out --url"),
        open_store("shop/words", place, 1.0),
    ):
        pass


def on_kubernetes() -> Place:
    return Place(
        url=None,
        state_dir=Path(),
        token_file=None,
        ca_file=None,
        is_on_kubernetes=True,
        context=None,
        service_account="default",
    )


def test_a_context_is_passed_on(kubectl: Path) -> None:
    write(kubectl)
    with forwarded(KubernetesPlace.parse("shop/words", "far")):
        pass
    assert all(line.startswith("--context far ") for line in asked(kubectl))


def test_a_store_that_does_not_exist_is_not_found(kubectl: Path) -> None:
    write(kubectl, resource="")
    said = "no store words in the namespace shop"
    with pytest.raises(StoreNotFoundError, match=said), forwarded(PLACE):
        pass


def test_a_forward_that_fails_says_why(kubectl: Path) -> None:
    write(kubectl, forward="echo 'error: no pod is running' >&2; exit 1")
    with pytest.raises(UnreachableError, match="error: no pod is running"), forwarded(PLACE):
        pass


def test_a_token_that_may_not_be_made_says_for_whom(kubectl: Path) -> None:
    write(kubectl, resource=CHECKED)
    with forwarded(PLACE, "reader") as found:
        assert found.token is not None
        with pytest.raises(UnauthenticatedError, match=r"service account reader .* forbidden"):
            found.token()


def test_a_machine_without_kubectl_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(KubectlError, match="kubectl is not on the PATH"), forwarded(PLACE):
        pass


def test_a_forward_ends_with_its_program_however_that_ends(kubectl: Path, tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    # It prints nothing later, so no broken pipe ends it when the program has died.
    ready = "echo 'Forwarding from 127.0.0.1:40123 -> 8080'"
    write(kubectl, forward=f"echo $$ > {pid_file}; {ready}; exec sleep 600")
    command = [sys.executable, "-c", HOLDS]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == b"http://127.0.0.1:40123\n"
        forward = int(pid_file.read_text())
        program.kill()
    wait_until(lambda: not is_running(forward))


def is_running(pid: int) -> bool:
    """A zombie process has ended, too."""
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False
