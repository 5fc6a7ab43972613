"""The rights to read and write a store, with real tokens, reviews and certificates."""

import json
import socket
import ssl
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.certificates import authority, secret
from e2e.clients import PodClient, start_client
from e2e.environment import Images
from e2e.kubectl import Cluster, CommandError, Object
from e2e.namespaces import fresh_namespace
from e2e.releases import install
from e2e.stores import is_ready, says, small_store
from qss_client import Store
from qss_client.http.retries import RetryLimits
from qss_client.http.sync_http import SyncHttp
from qss_core.errors import StoreError
from qss_testing.waiting import wait_until

GROUP = "queryablestate.dev"  # Also the common audience of all stores.
KEYS = 20
TLS_SECRET = "words-tls"


@pytest.fixture(scope="module")
def system(cluster: Cluster, images: Images) -> Iterator[Cluster]:
    """The operator of all namespaces, which may read the Secret with the certificate."""
    with fresh_namespace(cluster, "qss-e2e-access-system") as made:
        install(made, images, values={"tls.secretNames": f"{{{TLS_SECRET}}}"})
        yield made
        made.helm("uninstall", "qss", "--wait")


@pytest.fixture(scope="module")
def client(system: Cluster, namespace: Cluster, images: Images) -> PodClient:
    """Two stores, one with rows, and a client that may read and write all stores."""
    namespace.apply(small_store("words", replicas=2), small_store("other"))
    for store in ("words", "other"):
        namespace.wait(f"qss/{store}", "condition=Ready")
    made = start_client(namespace, images.store)
    made.write("words", KEYS, 1)
    return made


def account(here: Cluster, name: str, *rules: Object) -> str:
    """Makes a service account with these rights; returns its name."""
    subject = {"kind": "ServiceAccount", "name": name, "namespace": here.namespace}
    here.apply(
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}},
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "Role",
            "metadata": {"name": name},
            "rules": list(rules),
        },
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
            "subjects": [subject],
        },
    )
    return name


def right(what: str, verb: str, *stores: str) -> Object:
    return {
        "apiGroups": [GROUP],
        "resources": [f"queryablestatestores/{what}"],
        "verbs": [verb],
        **({"resourceNames": list(stores)} if stores else {}),
    }


def token(here: Cluster, name: str, audience: str | None = None, store: str = "words") -> str:
    """A token of an account for `audience`, by default the audience of `store`."""
    audience = audience or f"{GROUP}/{here.namespace}/{store}"
    return here.kubectl("create", "token", name, f"--audience={audience}").strip()


def address(here: Cluster, store: str) -> str:
    """The address of the Service, to which the test bed has a route."""
    return str(here.get("service", store)["spec"]["clusterIP"])


def refusal(here: Cluster, store: str, shown: str | None) -> StoreError:
    """The error of a get that the store must refuse."""
    url = f"http://{address(here, store)}:8080"
    limits = RetryLimits(deadline_s=10.0)
    with (
        pytest.raises(StoreError) as caught,
        Store(url, store, token=shown, direct=False, limits=limits) as asked,
    ):
        asked.get("key-1")
    return caught.value


def answer(here: Cluster, method: str, path: str, shown: str) -> StoreError:
    """The refusal of a request to a port of the Service."""
    http = SyncHttp(shown)
    body = b'{"queryId": "q", "runId": "r", "openId": "o"}' if method == "POST" else None
    headers = {"Content-Type": "application/json"}
    with pytest.raises(StoreError) as caught:
        http.request(method, f"http://{address(here, 'words')}{path}", body=body, headers=headers)
    http.close()
    return caught.value


def test_a_request_without_a_token_is_refused(
    client: PodClient, namespace: Cluster, own_bed: None
) -> None:
    said = refusal(namespace, "words", None)
    assert said.code == "UNAUTHENTICATED"


def test_a_token_for_another_audience_is_refused(
    client: PodClient, namespace: Cluster, own_bed: None
) -> None:
    account(namespace, "elsewhere", right("query", "get"))
    said = refusal(
        namespace, "words", token(namespace, "elsewhere", "https://kubernetes.default.svc")
    )
    assert said.code == "UNAUTHENTICATED"


def test_the_common_audience_opens_only_stores_that_allow_it(
    client: PodClient, namespace: Cluster, own_bed: None
) -> None:
    account(namespace, "of-all", right("query", "get"))
    shown = token(namespace, "of-all", GROUP)
    said = refusal(namespace, "words", shown)
    assert said.code == "UNAUTHENTICATED"
    assert f"{GROUP}/{namespace.namespace}/words" in said.message
    namespace.apply(small_store("common", access={"commonAudience": True}))
    namespace.wait("qss/common", "condition=Ready")
    url = f"http://{address(namespace, 'common')}:8080"
    with Store(url, "common", token=shown, direct=False) as store:
        assert store.get("key-1") is None
    namespace.kubectl("delete", "qss/common", "--wait=false")


def test_an_account_without_a_right_gets_the_name_of_the_right(
    client: PodClient, namespace: Cluster, own_bed: None
) -> None:
    account(namespace, "writer-only", right("write", "update"))
    said = refusal(namespace, "words", token(namespace, "writer-only"))
    assert said.code == "FORBIDDEN"
    assert "queryablestatestores/query" in said.message
    assert f"system:serviceaccount:{namespace.namespace}:writer-only" in said.message


def test_a_right_may_cover_one_store_only(
    client: PodClient, namespace: Cluster, own_bed: None
) -> None:
    account(namespace, "words-only", right("query", "get", "words"))
    shown = token(namespace, "words-only")
    assert refusal(namespace, "other", shown).code == "UNAUTHENTICATED", "the token is for words"
    other = token(namespace, "words-only", store="other")
    assert refusal(namespace, "other", other).code == "FORBIDDEN"
    url = f"http://{address(namespace, 'words')}:8080"
    with Store(url, "words", token=shown, direct=False) as store:
        row = store.get("key-1")
        assert row is not None
        assert row.value == 1
        assert len(list(store.range())) == KEYS, "with the rows of the other pod"


def test_an_account_that_may_only_read_may_not_write(
    client: PodClient, namespace: Cluster, own_bed: None
) -> None:
    account(namespace, "reader-only", right("query", "get"))
    path = ":8081/changelog/stores/words/writers/w"
    said = answer(namespace, "POST", path, token(namespace, "reader-only"))
    assert said.code == "FORBIDDEN"
    assert "queryablestatestores/write" in said.message


def test_only_the_operator_and_the_pods_may_assign(
    client: PodClient, namespace: Cluster, own_bed: None
) -> None:
    account(namespace, "all", right("query", "get"), right("write", "update"))
    said = answer(namespace, "GET", ":8081/control/replicas", token(namespace, "all"))
    assert said.code == "FORBIDDEN"


def test_qss_reads_a_store_by_its_name_from_outside(client: PodClient, namespace: Cluster) -> None:
    account(namespace, "laptop", right("query", "get", "words"))
    name = f"{namespace.namespace}/words"
    command = (sys.executable, "-m", "qss_client", "get", "--kube", name, "key-3")
    said = namespace.run(*command, "--service-account", "laptop", "--output", "json")
    assert [row["value"] for row in json.loads(said)] == [1]


def test_an_account_that_may_write_lists_the_writers_from_outside(
    client: PodClient, namespace: Cluster
) -> None:
    account(namespace, "keeper", right("write", "update", "words"))
    account(namespace, "looker", right("query", "get", "words"))
    name = f"{namespace.namespace}/words"
    command = (sys.executable, "-m", "qss_client", "writers", "--kube", name, "--output", "json")
    said = namespace.run(*command, "--service-account", "keeper")
    assert [writer["name"] for writer in json.loads(said)] == ["e2e"]
    with pytest.raises(CommandError, match="FORBIDDEN"):
        namespace.run(*command, "--service-account", "looker")


@pytest.fixture
def closed(system: Cluster, namespace: Cluster, tmp_path: Path) -> Iterator[tuple[Cluster, Path]]:
    """A store whose Secret does not exist yet, and the directory of an authority."""
    authority(tmp_path)
    namespace.apply(small_store("closed", replicas=2, access={"tlsSecretName": TLS_SECRET}))
    yield namespace, tmp_path
    namespace.kubectl("delete", "qss/closed", "--wait=false")
    namespace.kubectl("delete", f"secret/{TLS_SECRET}", "--ignore-not-found")


def serial_of(here: Cluster, certificate: Path) -> str | None:
    """The serial number of the certificate of the store, in hexadecimal.

    None while the node knows no ready pod of the Service, and refuses connections.
    """
    context = ssl.create_default_context(cafile=str(certificate))
    host = f"closed.{here.namespace}.svc"
    try:
        plain = socket.create_connection((address(here, "closed"), 8080), timeout=10)
    except ConnectionRefusedError:
        return None
    with plain, context.wrap_socket(plain, server_hostname=host) as shown:
        found = shown.getpeercert()
        assert found is not None
        return str(found["serialNumber"])


def test_a_store_with_a_certificate_waits_for_it_and_takes_a_new_one(
    closed: tuple[Cluster, Path], client: PodClient, own_bed: None
) -> None:
    here, directory = closed
    here.until(
        "qss/closed", says("Degraded", "TlsSecret", f"the Secret {TLS_SECRET} does not exist")
    )
    here.apply(secret(directory, TLS_SECRET, "closed", here.namespace))
    # The kubelet tries to mount the Secret again after a while.
    here.until("qss/closed", is_ready, timeout_s=180.0)
    assert here.get("qss/closed")["status"]["endpoints"]["query"].startswith("https://")
    first = wait_until(lambda: serial_of(here, directory / "ca.crt"))
    trust = (directory / "ca.crt").read_text()
    client.write("closed", KEYS, 1, trust)
    assert len(client.read("closed", trust)) == KEYS, "the pods take token and name of each other"
    place = ("--kube", f"{here.namespace}/closed", "--service-account", "client")
    command = (sys.executable, "-m", "qss_client", "get", *place, "key-1")
    assert "key-1" in here.run(*command, "--ca-file", str(directory / "ca.crt"))
    with pytest.raises(CommandError, match="name its authority by ca_file"):
        here.run(*command)
    here.apply(secret(directory, TLS_SECRET, "closed", here.namespace))
    # The kubelet takes up to a minute and a half to bring a new Secret into a pod.
    second = wait_until(
        lambda: (now := serial_of(here, directory / "ca.crt")) != first and now, timeout_s=180.0
    )
    assert second != first
    assert is_ready(here.get("qss/closed"))
    restarts = [
        status["restartCount"]
        for pod in here.items("pods", "--selector", f"{GROUP}/store=closed")
        for status in pod["status"]["containerStatuses"]
    ]
    assert restarts == [0, 0]
    assert len(client.read("closed", trust)) == KEYS
