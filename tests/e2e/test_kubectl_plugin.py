"""`kubectl qss`, as kubectl starts it, for a store that checks its callers."""

import json
import re
import signal
import subprocess
import sys
import tarfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import aiohttp
import pytest

from e2e.clients import PodClient
from e2e.kubectl import Cluster, CommandError
from e2e.stores import small_store
from qss_testing.clients.http import Api

STORE, PODS, KEYS = "words", ("words-0", "words-1"), 20
VALUE = 918_273_645  # No other number of a report is likely to have these digits.
ACCOUNT = ("--service-account", "client")
_CONSOLE_S = 60.0


@pytest.fixture(scope="module")
def words(here: Cluster, client: PodClient) -> Cluster:
    """A store of two pods with rows; kubectl finds its plug-in beside this Python."""
    here.apply(small_store(STORE, replicas=len(PODS)))
    here.wait(f"qss/{STORE}", "condition=Ready")
    client.write(STORE, KEYS, VALUE)
    return replace(here, path=f"{here.path}:{Path(sys.executable).parent}")


def qss(words: Cluster, command: str, *arguments: str) -> str:
    """What `kubectl qss COMMAND words` prints."""
    return words.run("kubectl", "qss", command, STORE, *arguments, "-n", words.namespace)


def test_logs_have_the_names_of_the_pods(words: Cluster) -> None:
    assert "Serving" in qss(words, "status")
    both = qss(words, "logs", "--tail", "-1").splitlines()
    assert {line.split("/")[1] for line in both} == set(PODS)
    one = qss(words, "logs", "--pod", PODS[1], "--tail", "3").splitlines()
    assert 0 < len(one) <= 3
    assert all(line.startswith(f"[pod/{PODS[1]}/") for line in one)
    with pytest.raises(CommandError, match="other-0 is no pod of store words"):
        qss(words, "logs", "--pod", "other-0")


def test_a_report_has_every_part_and_no_token_key_or_value(words: Cluster, tmp_path: Path) -> None:
    audience = f"queryablestate.dev/{words.namespace}/{STORE}"
    token = words.kubectl("create", "token", "client", f"--audience={audience}").strip()
    shown = tmp_path / "token"
    shown.write_text(token)
    assert str(VALUE) in qss(words, "get", "key-3", "--token-file", str(shown))
    file = tmp_path / "report.tar.gz"
    said = qss(words, "report", "--file", str(file))
    assert file.stat().st_mode & 0o077 == 0
    parts = parts_of(file)
    assert said == f"{file}: {len(parts)} files\n"

    # A pod that never restarted has no log of a process before.
    missing = [line for line in parts["README.txt"].splitlines() if ".before.log: " in line]
    expected = {"resource.json", "objects.json", "events.json", "README.txt"}
    expected |= {f"logs/{pod}.log" for pod in PODS} | {f"metrics/{pod}.txt" for pod in PODS}
    expected |= {f"logs/{pod}.before.log" for pod in PODS} - {one.split(":")[0] for one in missing}
    assert set(parts) == expected, parts["README.txt"]
    resource = json.loads(parts["resource.json"])
    assert (resource["spec"]["replicas"], resource["status"]["ready"]) == (2, "2/2")
    kinds = {one["kind"] for one in json.loads(parts["objects.json"])["items"]}
    assert {"StatefulSet", "Pod", "Service", "PersistentVolumeClaim"} <= kinds
    about = {one["involvedObject"]["name"] for one in json.loads(parts["events.json"])}
    assert STORE in about
    assert all(STORE in name for name in about)
    for pod in PODS:
        assert parts[f"logs/{pod}.log"].strip()
        assert "qss_requests_total{" in parts[f"metrics/{pod}.txt"]

    whole = "\n".join(parts.values())
    for secret in (token, token.split(".")[1], str(VALUE)):
        assert secret not in whole
    assert re.search(r"\bkey-\d", whole) is None
    assert re.search(r"\beyJ[\w-]+\.", whole) is None


def parts_of(file: Path) -> dict[str, str]:
    """The texts of a report by their names in its folder."""
    with tarfile.open(file) as archive:
        found = {}
        for entry in archive.getmembers():
            data = archive.extractfile(entry)
            assert data is not None, f"{entry.name} is no file"
            found[entry.name.removeprefix(f"{STORE}-report/")] = data.read().decode()
    return found


async def test_the_console_asks_with_the_token_of_the_caller(words: Cluster) -> None:
    with console(words) as address:
        origin, _, code = address.partition("/console/#code=")
        async with aiohttp.ClientSession() as session:
            api = Api(session, origin)
            page = await api.get("/console/")
            assert (page.status, b"main.js" in page.body) == (200, True)
            key = f"/state/stores/{STORE}/key-3"
            (await api.get(key)).problem(401, "UNAUTHENTICATED")
            opened = await api.post("/console/session", code.encode())
            bearer = f"Bearer {opened.json()['session']}"
            row = await api.get(key, Authorization=bearer)
            assert row.json()["value"] == VALUE
            status = await api.get(f"/state/status/{STORE}", Authorization=bearer)
            assert (set(status.json()["pods"]), status.json()["silent"]) == (set(PODS), {})


@contextmanager
def console(words: Cluster) -> Iterator[str]:
    """The address that `kubectl qss console` prints, while the command runs; Ctrl-C ends it."""
    place = ("-n", words.namespace, *ACCOUNT)
    process = subprocess.Popen(
        ["kubectl", "qss", "console", STORE, "--no-browser", *place],
        env=words.environment,
        stdout=subprocess.PIPE,
        text=True,
    )
    late = threading.Timer(_CONSOLE_S, process.kill)
    late.start()
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.send_signal(signal.SIGINT)
        assert process.wait() == 130
    finally:
        late.cancel()
        process.kill()
        process.communicate()
