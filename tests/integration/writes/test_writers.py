"""The writers of a store are listed and can be deleted; their rows stay."""

import json
import os
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from qss_client.http.sync_http import SyncHttp
from qss_client.writes.batch import WRITE_LIMITS, abort, commit, discover, open_writer
from qss_client.writes.writers import delete_writer, list_writers
from qss_core.errors import StoreError, UnknownWriterError, WriterOpenError
from qss_store.runtime.settings import Settings
from qss_testing.clients.qss_command import Qss
from qss_testing.fakes.virtual_time import SetClock
from qss_testing.pods.pod_process import PodCluster
from qss_testing.pods.stores import open_rocksdb
from qss_testing.pods.write_cluster import WriteCluster, decide, write_cluster
from qss_testing.waiting import wait_until_async
from qss_testing.writers.writer import Record
from qss_testing.writers.writer import Writer as SyncWriter

ALIVE_S = 150.0
WRITERS = "/changelog/stores/words/writers"
A, B = {b"k": b"a"}, {b"k": b"b"}
EVERYWHERE = (0, 1, 2, 3)


@pytest.fixture
def clock() -> SetClock:
    return SetClock()


@pytest.fixture
async def cluster(tmp_path: Path, clock: SetClock) -> AsyncIterator[WriteCluster]:
    settings = Settings(finish_timeout_s=30.0, peer_timeout_s=30.0, writer_alive_s=ALIVE_S)
    async with write_cluster(
        tmp_path, settings=settings, clock=clock, open_engine=open_rocksdb()
    ) as cluster:
        yield cluster


async def write(
    cluster: WriteCluster, name: str, batch: int, rows: Mapping[bytes, bytes] = A
) -> None:
    """Opens a writer, and commits a batch with these rows in each partition."""
    writer = cluster.writer(0, name)
    opened = (await writer.open(f"run-{name}-{batch}")).json()
    epoch, generation = opened["writerEpoch"], opened["generation"]
    chunks: dict[int, Any] = {}
    for p in EVERYWHERE:
        pod = cluster.writer(p % 2, name)
        chunks |= await pod.stage(epoch, batch, f"{epoch}.t.{p}", {p: rows}, generation)
    answer = await writer.commit(epoch, batch, chunks, generation=generation)
    assert not answer.json()["alreadyApplied"]


async def delete(cluster: WriteCluster, name: str, ordinal: int = 0, query: str = "") -> Any:
    """The answer to a DELETE."""
    return await cluster.pods[ordinal].internal.send("DELETE", f"{WRITERS}/{name}{query}", None, {})


def topics(cluster: WriteCluster) -> list[set[str]]:
    """The topics of each partition's position."""
    return [set(cluster.replica(p).machine.participant.position.to_json()) for p in EVERYWHERE]


@pytest.mark.parametrize("ordinal", [0, 1])
async def test_every_pod_lists_the_writers(
    cluster: WriteCluster, clock: SetClock, ordinal: int
) -> None:
    await write(cluster, "job", 7)
    clock.now_s += 5
    await cluster.writer(0, "batch").epoch(oneOff=True)
    found = (await cluster.pods[ordinal].internal.get(WRITERS)).json()["writers"]
    assert [one["name"] for one in found] == ["batch", "job"]
    assert [one["lastBatch"] for one in found] == [None, 7]
    assert [one["oneOff"] for one in found] == [True, False]
    assert [one["silentS"] for one in found] == [0.0, 5.0]
    epoch = await cluster.writer(0, "job").epoch("another")
    await cluster.writer(0, "job").abort(epoch, 8)
    found = (await cluster.pods[ordinal].internal.get(WRITERS)).json()["writers"]
    assert found[1]["silentS"] is None, "the run is closed"


async def test_a_silence_that_began_before_the_restart_is_told_as_the_least_that_it_may_be(
    cluster: WriteCluster, clock: SetClock
) -> None:
    async def found() -> dict[str, Any]:
        (one,) = (await cluster.pods[0].internal.get(WRITERS)).json()["writers"]
        report: dict[str, Any] = one
        return report

    await write(cluster, "job", 0)
    clock.now_s += 5
    known = await found()
    assert (known["silentS"], known["isHeardOf"]) == (5.0, True)
    clock.now_s += ALIVE_S
    await cluster.stop_pod(0)
    await cluster.start_pod(0)
    await found()
    clock.now_s += 12
    unknown = await found()
    assert (unknown["silentS"], unknown["isHeardOf"]) == (12.0, False)
    told = (await delete(cluster, "job")).problem(409, "WRITER_OPEN")["detail"]
    assert "has sent no request since this pod leads partition 0, for at least 12 s" in told
    epoch = cluster.replica(0).machine.coordinator.writer("job").writer_epoch  # type: ignore[union-attr]
    (await cluster.writer(0, "job").renew(epoch)).json()
    clock.now_s += 3
    again = await found()
    assert (again["silentS"], again["isHeardOf"]) == (3.0, True)


@pytest.mark.parametrize("ordinal", [0, 1])
async def test_a_silent_writer_can_be_deleted_and_its_rows_stay(
    cluster: WriteCluster, clock: SetClock, ordinal: int
) -> None:
    await write(cluster, "gone", 3)
    await write(cluster, "job", 0)
    (await delete(cluster, "gone", ordinal)).problem(409, "WRITER_OPEN")
    clock.now_s += ALIVE_S + 1
    assert (await delete(cluster, "gone", ordinal)).json()["lastBatch"] == 3
    (await delete(cluster, "gone", ordinal)).problem(404, "UNKNOWN_WRITER")
    assert all("@batch.gone" in one for one in topics(cluster)), (
        "positions keep the writer until the next batch"
    )
    await write(cluster, "job", 1)
    assert topics(cluster) == [{"@batch.job", "flights"}] * len(EVERYWHERE)
    assert cluster.rows(0) == A


async def test_a_deleted_writer_that_comes_back_begins_anew(
    cluster: WriteCluster,
) -> None:
    await write(cluster, "job", 7)
    (await delete(cluster, "job", query="?force=true")).json()
    await write(cluster, "job", 2, rows=B)
    assert cluster.rows(0) == B
    for partition in EVERYWHERE:
        position = cluster.replica(partition).machine.participant.position.to_json()
        assert position["@batch.job"] == {"2": 2}


async def test_the_run_of_a_deleted_writer_gets_unknown_writer(
    cluster: WriteCluster,
) -> None:
    writer = cluster.writer()
    epoch = await writer.epoch()
    chunks = await writer.stage(epoch, 0, f"{epoch}.t.0", {0: A})
    (await delete(cluster, "job", query="?force=true")).json()
    (await writer.commit(epoch, 0, chunks)).problem(404, "UNKNOWN_WRITER")
    (await writer.renew(epoch)).problem(404, "UNKNOWN_WRITER")
    # The staged chunks of the run are dropped.
    await wait_until_async(lambda: cluster.staged() == set())


async def test_a_decided_batch_is_completed_before_its_writer_is_deleted(
    cluster: WriteCluster,
) -> None:
    writer = cluster.writer()
    epoch = await writer.epoch()
    chunks = await writer.stage(epoch, 0, f"{epoch}.t.0", {0: A})
    await decide(cluster, writer, 0, chunks)
    assert (await delete(cluster, "job", query="?force=true")).json()["lastBatch"] == 0
    assert cluster.rows(0) == A


async def test_a_deleted_writer_stays_deleted_over_a_restart(cluster: WriteCluster) -> None:
    await write(cluster, "gone", 3)
    await write(cluster, "job", 0)
    (await delete(cluster, "gone", query="?force=true")).json()
    await cluster.stop_pod(0)
    await cluster.start_pod(0)
    await cluster.assign(cluster.configurations)
    found = (await cluster.pods[1].internal.get(WRITERS)).json()["writers"]
    assert [one["name"] for one in found] == ["job"]
    await write(cluster, "job", 1)
    assert topics(cluster) == [{"@batch.job", "flights"}] * len(EVERYWHERE)


@pytest.mark.parametrize(
    ("target", "code"),
    [
        ("/job?force=1", "MALFORMED_REQUEST"),
        ("/job?sure=true", "UNKNOWN_PARAMETER"),
        ("/.job", "MALFORMED_REQUEST"),
    ],
)
async def test_bad_requests_are_refused(cluster: WriteCluster, target: str, code: str) -> None:
    answer = await cluster.pods[0].internal.send("DELETE", WRITERS + target, None, {})
    answer.problem(400, code)


# --- The client and the command


@pytest.fixture(scope="module")
def pods(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with PodCluster(tmp_path_factory.mktemp("writers"), pods=2, partitions=2) as pods:
        for name in ("first", "second"):
            with SyncWriter(pods.pods[0].internal, pods.store, name) as writer:
                writer.write([Record("k", name)])
        yield pods


def test_the_client_asks_any_pod_on_either_port(pods: PodCluster) -> None:
    http = SyncHttp()
    for pod in pods.pods:
        for url in (pod.internal, pod.query):
            assert [one.name for one in list_writers(http, url, pods.store)] == ["first", "second"]
            with pytest.raises(WriterOpenError, match="stop its query"):
                delete_writer(http, url, pods.store, "first")
            with pytest.raises(UnknownWriterError):
                delete_writer(http, url, pods.store, "nobody")
    http.close()


def test_the_query_port_neither_lists_nor_changes_writers(pods: PodCluster) -> None:
    http = SyncHttp()
    for pod in pods.pods:
        for method, path in (("GET", ""), ("DELETE", "/first?force=true"), ("POST", "/third")):
            url = f"{pod.query}/changelog/stores/{pods.store}/writers{path}"
            with pytest.raises(StoreError) as refused:
                http.request(method, url, body=b"{}" if method == "POST" else None)
            assert refused.value.http_status == 404, (method, path)
    assert "/changelog" not in http.request("GET", f"{pods.url}/openapi.json").body.decode()
    http.close()


def test_a_person_sees_writers_on_kubernetes_by_the_internal_port(
    pods: PodCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    query, internal = pods.pods[1].ports[:2]
    kubectl = tmp_path / "kubectl"
    kubectl.write_text(
        f"""#!/bin/sh
case "$*" in
  *" get "*) echo '{{"spec": {{"access": {{"authentication": "None"}}}}}}';;
  *" :8080") echo 'Forwarding from 127.0.0.1:{query} -> 8080'; exec sleep 60;;
  *" :8081") echo 'Forwarding from 127.0.0.1:{internal} -> 8081'; exec sleep 60;;
esac
"""
    )
    kubectl.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    shown = Qss(tmp_path).run("writers", "--kube", f"shop/{pods.store}", "-o", "json")
    assert shown.code == 0, shown.err
    assert "first" in [one["name"] for one in json.loads(shown.out)]


def test_a_person_shows_and_deletes_writers(pods: PodCluster, tmp_path: Path) -> None:
    qss = Qss(tmp_path)

    def run(*more: str) -> Any:
        return qss.run("writers", pods.store, "--url", pods.pods[1].query, *more)

    shown = run()
    assert shown.code == 0, shown.err
    assert shown.out.split()[:3] == ["NAME", "STATE", "LAST"]
    assert "first" in shown.out
    assert "open, " in shown.out
    refused = run("--delete", "second")
    assert (refused.code, "WRITER_OPEN" in refused.err) == (1, True)
    assert run("--force").code == 2
    done = run("--delete", "second", "--force")
    assert (done.code, done.out) == (0, "writer second is forgotten, after batch 0\n")
    gone = run("--delete", "second", "--force")
    assert gone.code == 3
    assert gone.err == (
        f"error: UNKNOWN_WRITER: store {pods.store} has no writer second: "
        f"`qss writers {pods.store} --all` lists its writers\n"
    )
    assert [(one["name"], one["queryId"]) for one in json.loads(run("-o", "json").out)] == [
        ("first", "first")
    ]


def test_finished_batch_jobs_are_listed_only_with_the_flag_all(tmp_path: Path) -> None:
    qss = Qss(tmp_path)
    http = SyncHttp()
    with PodCluster(tmp_path / "pods") as pods:
        metadata = discover(http, pods.url, pods.store, WRITE_LIMITS)
        for name in ("batch-done", "batch-gone", "batch-open"):
            run = open_writer(http, metadata, name, query_id=name, run_id=name, one_off=True)
            if name == "batch-done":
                commit(http, run, 0, [], position={}, fingerprint="f")
            elif name == "batch-gone":
                abort(http, run, 0)
        with SyncWriter(pods.url, pods.store, "x" * 150) as writer:
            writer.write([Record("k", "v")])
        shown = qss.run("writers", pods.store, "--url", pods.url, "-o", "json")
        everyone = qss.run("writers", pods.store, "--url", pods.url, "-o", "json", "--all")
        table = qss.run("writers", pods.store, "--url", pods.url)
    http.close()
    assert [one["name"] for one in json.loads(shown.out)] == ["batch-open", "x" * 150]
    assert shown.err == "batch jobs that are done: 2; --all shows them\n"
    states = {one["name"]: one["state"] for one in json.loads(everyone.out)}
    assert states["batch-done"] == "batch job, done"
    assert states["batch-gone"] == "batch job, closed"
    assert states["batch-open"].startswith("batch job, open, ")
    assert everyone.err == ""
    assert "x" * 150 in table.out, "a name is never cut"
