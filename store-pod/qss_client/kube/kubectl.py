"""Reaches stores of a Kubernetes cluster from outside, by `kubectl` with the user's access.

A pod of the cluster does not need this: it uses the store's Service. From a laptop one port is
forwarded to the Service, and the pod behind it asks the other pods. (The API server's own proxy
would drop the Authorization header.)
"""

import json
import os
import queue
import re
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from qss_client.http.slow_answers import SlowAnswers
from qss_client.kube.child_processes import started
from qss_core.audiences import own_audience
from qss_core.errors import (
    MalformedRequestError,
    StoreError,
    StoreNotFoundError,
    UnauthenticatedError,
    UnreachableError,
)

_ANSWER_S = 30.0
_FORWARD_S = 15.0
_TOKEN_S = 600
_LOOPBACK = "--address=127.0.0.1"
_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_PLACE = re.compile(f"(?P<namespace>{_LABEL})/(?P<store>{_LABEL})")
_FORWARDING = re.compile(r"Forwarding from 127\.0\.0\.1:(?P<port>[0-9]+)")


class KubectlError(StoreError):
    """kubectl is missing, or has failed; the message has kubectl's own words."""

    code, http_status = "KUBECTL", 502


@dataclass(frozen=True, slots=True, kw_only=True)
class KubernetesPlace:
    """A store's resource, in a context of the kubeconfig (None: the current one)."""

    namespace: str
    store: str
    context: str | None = None
    kubeconfig: str | None = None  # None: that of kubectl.

    @classmethod
    def parse(
        cls, text: str, context: str | None = None, kubeconfig: str | None = None
    ) -> "KubernetesPlace":
        """The place that NAMESPACE/STORE names. Raises MalformedRequestError for another form."""
        found = _PLACE.fullmatch(text)
        if found is None:
            raise MalformedRequestError(f"a store on Kubernetes is NAMESPACE/STORE, not {text!r}")
        return cls(
            namespace=found["namespace"],
            store=found["store"],
            context=context,
            kubeconfig=kubeconfig,
        )

    @property
    def host(self) -> str:
        """The Service's name in the cluster, which the certificate has."""
        return f"{self.store}.{self.namespace}.svc"

    def command(self, *arguments: str) -> list[str]:
        """A kubectl command in the store's namespace."""
        options = _options(self.context, self.kubeconfig)
        return ["kubectl", *options, "--namespace", self.namespace, *arguments]


@dataclass(frozen=True, slots=True, kw_only=True)
class Forwarded:
    """A store behind a port of this machine, inside the block."""

    url: str
    token: Callable[[], str] | None  # None: the store asks for no tokens.
    server_hostname: str | None  # The name in the certificate; None: no TLS.


@contextmanager
def forwarded(
    place: KubernetesPlace, service_account: str | None = "default", service_port: int = 8080
) -> Iterator[Forwarded]:
    """Forwards a port to one of the store's Service.

    If the store checks its callers, it requests a token of `service_account` in the store's
    namespace (TokenRequest); that account needs the right `query` on the store. None: the caller
    has a token.
    """
    resource = read_resource(place)
    access = resource.get("spec", {}).get("access") or {}
    is_checked = access.get("authentication", "ServiceAccount") != "None"
    is_tls = access.get("tlsSecretName") is not None
    service = f"service/{place.store}"
    with _PortForward(
        place.command("port-forward", _LOOPBACK, service, f":{service_port}")
    ) as port:
        yield Forwarded(
            url=f"{'https' if is_tls else 'http'}://127.0.0.1:{port}",
            token=_Tokens(place, service_account) if is_checked and service_account else None,
            server_hostname=place.host if is_tls else None,
        )


class _PortForward:
    """`kubectl port-forward` inside the block; reads its output, so that its pipe never fills.

    One thread starts and reads the process. On Linux the kernel ends a process with the thread that
    started it, so this thread lives as long as the process, whichever thread enters and leaves the
    block.
    """

    def __init__(self, command: list[str]) -> None:
        self._said: deque[str] = deque(maxlen=5)
        self._port: queue.SimpleQueue[int | None] = queue.SimpleQueue()
        self._process: subprocess.Popen[str] | None = None
        self._is_started = threading.Event()
        self._keeper = threading.Thread(
            target=self._keep, args=(command,), name="kubectl", daemon=True
        )
        self._keeper.start()
        self._is_started.wait()

    def __enter__(self) -> int:
        """The port on this machine."""
        try:
            with SlowAnswers().watched("kubectl port-forward", _FORWARD_S):
                port = self._port.get(timeout=_FORWARD_S)
        except queue.Empty:
            port = None
        if port is None:
            self._stop()
            said = _last_line("\n".join(self._said)) or f"no answer within {_FORWARD_S:g} s"
            raise UnreachableError(f"the store's Service cannot be reached: {said}")
        return port

    def __exit__(self, *_: object) -> None:
        self._stop()

    def _stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait()
        self._keeper.join()

    def _keep(self, command: list[str]) -> None:
        try:
            self._process = started(command)
        except OSError as error:
            self._said.append(str(error))
        finally:
            self._is_started.set()
        if self._process is not None:
            self._read(self._process)
        self._port.put(None)

    def _read(self, process: "subprocess.Popen[str]") -> None:
        assert process.stdout is not None, "a pipe was asked for"
        with process.stdout as lines:
            for line in lines:
                self._said.append(line)
                if found := _FORWARDING.search(line):
                    self._port.put(int(found["port"]))


class _Tokens:
    """Short-lived tokens of a service account, renewed before they expire."""

    def __init__(self, place: KubernetesPlace, service_account: str) -> None:
        self._place = place
        self._service_account = service_account
        self._token: str | None = None
        self._until_s = 0.0

    def __call__(self) -> str:
        now_s = time.monotonic()
        if self._token is None or now_s > self._until_s:
            audience = os.environ.get("QSS_TOKEN_AUDIENCE") or own_audience(
                self._place.namespace, self._place.store
            )
            arguments = (f"--audience={audience}", f"--duration={_TOKEN_S}s")
            command = self._place.command("create", "token", self._service_account, *arguments)
            try:
                self._token = _run(command).strip()
            except KubectlError as error:
                raise UnauthenticatedError(
                    f"no token of the service account {self._service_account} in the namespace "
                    f"{self._place.namespace}: {error.message}"
                ) from error
            self._until_s = now_s + _TOKEN_S / 2
        return self._token


def read_resource(place: KubernetesPlace) -> dict[str, Any]:
    """The resource of the store. Raises StoreNotFoundError, or KubectlError as kubectl says."""
    command = place.command("get", "queryablestatestores", place.store, "--output=json")
    try:
        text = _run(command)
    except KubectlError as error:
        if "NotFound" not in error.message:
            raise
        where = f"the namespace {place.namespace}"
        raise StoreNotFoundError(
            f"no store {place.store} in {where}: see `kubectl get qss -A`"
        ) from error
    return _json_of(text)


def read_resources(
    namespace: str, context: str | None = None, kubeconfig: str | None = None
) -> list[dict[str, Any]]:
    """The resources of all stores of a namespace. Raises KubectlError with kubectl's words."""
    options = [*_options(context, kubeconfig), "--namespace", namespace]
    text = _run(["kubectl", *options, "get", "queryablestatestores", "--output=json"])
    items: list[dict[str, Any]] = _json_of(text).get("items", [])
    return items


def current_namespace(context: str | None = None, kubeconfig: str | None = None) -> str:
    """The namespace of the context in the kubeconfig, `default` if it names none."""
    options = _options(context, kubeconfig)
    wanted = ["config", "view", "--minify", "--output=jsonpath={..namespace}"]
    try:
        return _run(["kubectl", *options, *wanted]).strip() or "default"
    except KubectlError as error:
        raise KubectlError(f"{error.message}; give the namespace with -n") from error


def kubectl_text(place: KubernetesPlace, *arguments: str) -> str:
    """Runs kubectl in the place's namespace, and returns its output. Raises KubectlError."""
    return _run(place.command(*arguments))


def run_kubectl(place: KubernetesPlace, *arguments: str) -> int:
    """Runs kubectl with this process's outputs; returns its exit code. Raises KubectlError."""
    try:
        return subprocess.run(place.command(*arguments), check=False).returncode
    except FileNotFoundError as error:
        raise _missing() from error


def _options(context: str | None, kubeconfig: str | None) -> list[str]:
    return [
        *(["--context", context] if context else []),
        *(["--kubeconfig", kubeconfig] if kubeconfig else []),
    ]


def _json_of(text: str) -> dict[str, Any]:
    try:
        document: dict[str, Any] = json.loads(text)
    except ValueError as error:
        raise KubectlError(f"kubectl answered no JSON: {text[:200]!r}") from error
    return document


def _run(command: list[str]) -> str:
    try:
        with SlowAnswers().watched("kubectl", _ANSWER_S):
            # A log may have bytes that are no UTF-8.
            done = subprocess.run(
                command,
                capture_output=True,
                encoding="utf-8",
                errors="replace",
                timeout=_ANSWER_S,
                check=False,
            )
    except FileNotFoundError as error:
        raise _missing() from error
    except subprocess.TimeoutExpired as error:
        raise UnreachableError(
            f"kubectl {command[-1]} did not end within {_ANSWER_S:g} s"
        ) from error
    if done.returncode != 0:
        raise KubectlError(f"kubectl: {_last_line(done.stderr)}")
    return done.stdout


def _missing() -> KubectlError:
    return KubectlError(
        "kubectl is not on the PATH: install it, as it reaches the cluster from here"
    )


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:500] if lines else ""
