"""Real pods over https: certificates of pods and peers, and refusals of clients."""

import http.client
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from qss_client import Store
from qss_client.cli.main import main
from qss_client.http.retries import RetryLimits
from qss_client.http.sync_http import SyncHttp
from qss_core.errors import CertificateRefusedError, UnreachableError
from qss_store.access.tls import Certificates
from qss_testing.clients.clients import AnyClient
from qss_testing.fakes.reviewer import Reviewer, make_token
from qss_testing.pods.certificates import Authority, SecretVolume
from qss_testing.pods.guarded import BOTH, guarded, rights
from qss_testing.pods.pod_process import PodCluster, PodProcess
from qss_testing.waiting import wait_until
from qss_testing.writers.writer import Record, Writer

KEYS = [f"k{number}" for number in range(20)]
LOOK_OFTEN = {"QSS_TLS_LOOK_INTERVAL_S": "0.05"}
IMPATIENT = RetryLimits(deadline_s=0.5)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority.make(tmp_path_factory.mktemp("authorities") / "first")


@pytest.fixture(scope="module")
def other_authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority.make(tmp_path_factory.mktemp("authorities") / "second")


@pytest.fixture
def volume(authority: Authority, tmp_path: Path) -> SecretVolume:
    """The directory that `--tls-dir` names, with a first certificate."""
    volume = SecretVolume(tmp_path / "tls")
    volume.put(authority.issue(tmp_path / "first"))
    return volume


@pytest.fixture
def start(
    authority: Authority, volume: SecretVolume, tmp_path: Path
) -> Iterator[Callable[..., PodCluster]]:
    clusters: list[PodCluster] = []

    def start(pods: int = 1) -> PodCluster:
        cluster = PodCluster(
            tmp_path,
            pods=pods,
            environment=LOOK_OFTEN,
            arguments=("--tls-dir", str(volume.path)),
            operator={"ca_file": authority.file},
        )
        clusters.append(cluster)
        return cluster.__enter__()

    yield start
    for cluster in clusters:
        cluster.__exit__(None, None, None)


def serial_of(pod: PodProcess) -> str:
    """The certificate that a new connection gets."""
    return ssl.get_server_certificate(("127.0.0.1", pod.ports[0]))


def loads(pod: PodProcess, result: str) -> bool:
    """Whether the pod has counted a load of its certificate with this result."""
    client = SyncHttp()
    try:
        text = client.request("GET", f"{pod.ops}/metrics").body.decode()
    finally:
        client.close()
    return f'qss_certificate_loads_total{{result="{result}"}}' in text


def test_readers_writers_and_peers_speak_tls(
    authority: Authority, start: Callable[..., PodCluster]
) -> None:
    cluster = start(pods=2)
    assert cluster.url.startswith("https:")
    with Writer(cluster.url, cluster.store, ca_file=authority.file) as writer:
        writer.write(Record(key, 1) for key in KEYS)
    with Store(cluster.url, cluster.store, ca_file=authority.file) as store:
        assert [row and row.value for row in store.get_many(KEYS)] == [1] * len(KEYS)
    client = SyncHttp(ca_file=authority.file)
    for key in KEYS:  # The pod passes half of the keys on to the other pod.
        assert client.request("GET", f"{cluster.url}/state/stores/words/{key}").status == 200
    client.close()


def test_tokens_and_tls_go_together(authority: Authority, tmp_path: Path) -> None:
    directory = authority.issue(tmp_path / "tls")
    options: dict[str, Any] = {"operator": {"ca_file": authority.file}, "pods": 2}
    with (
        Reviewer(rights()) as reviewer,
        guarded(tmp_path, reviewer, ("--tls-dir", str(directory)), **options) as cluster,
        Writer(cluster.url, "words", token=make_token(BOTH), ca_file=authority.file) as writer,
    ):
        writer.write(Record(key, 1) for key in KEYS)
        token = make_token(BOTH)
        with Store(cluster.url, "words", token=token, ca_file=authority.file) as store:
            assert len(list(store.range())) == len(KEYS)


def test_a_new_certificate_is_taken_and_no_connection_is_dropped(
    authority: Authority, volume: SecretVolume, start: Callable[..., PodCluster], tmp_path: Path
) -> None:
    pod = start().pods[0]
    before = serial_of(pod)
    trust = ssl.create_default_context(cafile=str(authority.file))
    connection = http.client.HTTPSConnection("127.0.0.1", pod.ports[0], context=trust)
    connection.request("GET", "/state/instances/words")
    assert connection.getresponse().read()
    held = connection.sock
    volume.put(authority.issue(tmp_path / "second"))
    wait_until(lambda: serial_of(pod) != before)
    connection.request("GET", "/state/instances/words")
    assert connection.getresponse().read()
    assert connection.sock is held
    connection.close()
    assert loads(pod, "loaded")
    assert not loads(pod, "refused")


def test_another_authority_is_taken_over_by_all_pods(
    other_authority: Authority,
    volume: SecretVolume,
    start: Callable[..., PodCluster],
    tmp_path: Path,
) -> None:
    cluster = start(pods=2)
    before = [serial_of(pod) for pod in cluster.pods]
    volume.put(other_authority.issue(tmp_path / "second"))
    wait_until(lambda: all(serial_of(pod) not in before for pod in cluster.pods))
    with Writer(cluster.url, cluster.store, ca_file=other_authority.file) as writer:
        writer.write(Record(key, 1) for key in KEYS)
    client = SyncHttp(ca_file=other_authority.file)
    for key in KEYS:
        assert client.request("GET", f"{cluster.url}/state/stores/words/{key}").status == 200
    client.close()


@pytest.mark.parametrize("fault", ["other key", "no certificate", "no authority", "encrypted key"])
def test_a_broken_certificate_is_refused_and_the_old_one_stays(
    authority: Authority,
    volume: SecretVolume,
    start: Callable[..., PodCluster],
    tmp_path: Path,
    fault: str,
) -> None:
    pod = start().pods[0]
    before = serial_of(pod)
    broken = authority.issue(tmp_path / "broken")
    match fault:
        case "other key":
            (authority.issue(tmp_path / "third") / "tls.key").replace(broken / "tls.key")
        case "no certificate":
            (broken / "tls.crt").write_text("-----BEGIN CERTIFICATE-----\n")
        case "no authority":
            (broken / "ca.crt").write_text("nothing")
        case "encrypted key":
            (broken / "tls.key").write_text(
                "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n"
            )
    volume.put(broken)
    wait_until(lambda: loads(pod, "refused"))
    assert serial_of(pod) == before
    assert pod.log().count("the new certificate is refused, the old one stays") == 1
    volume.put(authority.issue(tmp_path / "good"))
    wait_until(lambda: serial_of(pod) != before)


def test_files_that_are_away_are_told_once_and_taken_when_they_return(
    authority: Authority,
    volume: SecretVolume,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    told: list[str] = []
    certificates = Certificates(volume.path, told.append)
    before, away = certificates.client, volume.path / "..data"
    away.rename(tmp_path / "away")
    certificates.look()
    assert not caplog.records, "the files may be changed just now"
    for _ in range(5):
        certificates.look()
    assert certificates.client is before
    assert caplog.text.count("the certificate cannot be read, the last good one stays") == 1
    volume.put(authority.issue(tmp_path / "second"))
    certificates.look()
    assert certificates.client is not before
    assert told == ["loaded"]


@pytest.mark.parametrize("name", ["tls.crt", "tls.key"])
def test_a_pod_without_its_files_ends_and_names_them(
    authority: Authority, tmp_path: Path, name: str
) -> None:
    directory = authority.issue(tmp_path / "tls")
    (directory / name).unlink()
    flags = ("--tls-dir", str(directory))
    pod = PodProcess("words", 0, tmp_path / "pod-0", {}, (), flags)
    pod.launch()
    assert pod.process is not None
    assert pod.process.wait(timeout=30) == 1
    assert f"--tls-dir: {directory / name}: No such file or directory" in pod.log()
    assert "Traceback" not in pod.log()


# --- Clients


@pytest.mark.parametrize("kind", ["sync", "async"])
async def test_a_client_refuses_an_untrusted_certificate_at_once(
    kind: str, other_authority: Authority, start: Callable[..., PodCluster]
) -> None:
    cluster = start()
    for ca_file in (None, other_authority.file):
        client = AnyClient(kind, cluster.url, cluster.store, ca_file=ca_file)
        with pytest.raises(CertificateRefusedError, match=r"not trusted: .*--ca-file") as told:
            await client.get("k")
        assert str(told.value).startswith(f"CERTIFICATE_REFUSED: {cluster.url}")
        await client.close()


@pytest.mark.parametrize("kind", ["sync", "async"])
async def test_a_certificate_of_another_host_is_refused(
    kind: str,
    authority: Authority,
    volume: SecretVolume,
    start: Callable[..., PodCluster],
    tmp_path: Path,
) -> None:
    cluster = start()
    before = serial_of(cluster.pods[0])
    volume.put(authority.issue(tmp_path / "elsewhere", name="DNS:elsewhere"))
    wait_until(lambda: serial_of(cluster.pods[0]) != before)
    client = AnyClient(kind, cluster.url, cluster.store, ca_file=authority.file)
    with pytest.raises(CertificateRefusedError, match=r"127\.0\.0\.1"):
        await client.get("k")
    await client.close()


@pytest.mark.parametrize("kind", ["sync", "async"])
async def test_a_wrong_scheme_is_reported(
    kind: str, authority: Authority, start: Callable[..., PodCluster]
) -> None:
    cluster = start()
    port = cluster.pods[0].ports[2]  # The port for the kubelet has no TLS.
    client = AnyClient(kind, f"https://127.0.0.1:{port}", "words", ca_file=authority.file)
    with pytest.raises(CertificateRefusedError, match="speaks no TLS"):
        await client.get("k")
    await client.close()
    plain = AnyClient(kind, cluster.url.replace("https", "http"), "words", limits=IMPATIENT)
    with pytest.raises(UnreachableError):
        await plain.get("k")
    await plain.close()


def test_qss_takes_its_token_and_authority_from_flags_or_the_environment(
    authority: Authority,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    directory = authority.issue(tmp_path / "tls")
    token = tmp_path / "token"
    token.write_text(make_token(BOTH))
    options: dict[str, Any] = {"operator": {"ca_file": authority.file}}
    with (
        Reviewer(rights()) as reviewer,
        guarded(tmp_path, reviewer, ("--tls-dir", str(directory)), **options) as cluster,
    ):
        with Writer(cluster.url, "words", token_file=token, ca_file=authority.file) as writer:
            writer.write([Record("a", 1)])
        asked = ["get", "words", "a", "--url", cluster.url, "-o", "ndjson"]
        flags = ["--token-file", str(token), "--ca-file", str(authority.file)]
        for more, environment in (
            (flags, {}),
            ([], {"QSS_TOKEN_FILE": str(token), "QSS_CA_FILE": str(authority.file)}),
            ([], {"QSS_TOKEN": token.read_text(), "QSS_CA_FILE": str(authority.file)}),
            (flags, {"QSS_TOKEN": "wrong", "QSS_TOKEN_FILE": "/none", "QSS_CA_FILE": "/none"}),
        ):
            with monkeypatch.context() as patched:
                for name, value in environment.items():
                    patched.setenv(name, value)
                with pytest.raises(SystemExit) as ended:
                    main([*asked, *more])
            out, err = capsys.readouterr()
            assert (ended.value.code, err) == (0, "")
            assert '"value":1' in out
        with pytest.raises(SystemExit) as ended:
            main([*asked, *flags[2:]])
        assert ended.value.code == 1
        assert "UNAUTHENTICATED" in capsys.readouterr().err
