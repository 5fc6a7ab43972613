"""`qss stores`, `qss describe` and `qss watch`, and the client's question for a newer row."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from qss_client.cli.stores.watch import new_rows
from qss_client.reads.requests import DEFAULTS
from qss_client.store import Store
from qss_core.errors import UnreachableError
from qss_testing.clients.qss_command import REAL_POD, STORE, Qss, manifest
from qss_testing.clients.terminal import ROWS, Terminal
from qss_testing.page_commands import outputs_of_page, words_of
from qss_testing.pods.pod_process import PodCluster
from qss_testing.waiting import wait_until
from qss_testing.writers.writer import Record, Writer


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PodCluster]:
    """One pod with one partition, so that each batch makes a new state of every key."""
    with PodCluster(tmp_path_factory.mktemp("watched"), partitions=1) as cluster:
        yield cluster


@pytest.fixture
def writer(cluster: PodCluster) -> Iterator[Writer]:
    with Writer(cluster.url, cluster.store) as writer:
        yield writer


# --- A newer row


def test_a_state_that_was_seen_is_answered_without_a_row(
    cluster: PodCluster, writer: Writer
) -> None:
    writer.write([Record("seen", 1, 1000)])
    with Store(cluster.url, cluster.store) as store:
        first = store.get_newer("seen")
        assert first is not None
        assert first.row is not None
        assert (first.row.value, first.row.timestamp) == (1, 1000)
        assert store.get_newer("seen", first.etag) is None
        writer.write([Record("other", 1, 1000)])
        second = store.get_newer("seen", first.etag)
        assert second is not None
        assert second.row == first.row
        assert second.etag != first.etag


def test_an_absent_key_and_a_key_that_no_path_can_have_are_asked_anew(
    cluster: PodCluster, writer: Writer
) -> None:
    writer.write([Record("", "empty", 1000)])
    with Store(cluster.url, cluster.store) as store:
        absent = store.get_newer("never written")
        assert absent is not None
        assert (absent.row, absent.etag) == (None, None)
        empty = store.get_newer("")
        assert empty is not None
        assert empty.row is not None
        assert empty.row.value == "empty"


# --- qss watch


def test_each_new_row_is_yielded_once(cluster: PodCluster, writer: Writer) -> None:
    batches = [
        [Record("w", 1, 1000)],
        [Record("else", 1, 1000)],  # Another state of the partition, with the same row.
        [Record("w", 2, 2000)],
        [Record("w", None)],
        [Record("else", 2, 1000)],
        [Record("w", 2, 2000)],
    ]
    with Store(cluster.url, cluster.store) as store:
        # The clock of this test: each pause commits a batch.
        pauses = iter(batches)
        rows = new_rows(store, "w", DEFAULTS, lambda: writer.write(next(pauses)), pytest.fail)
        seen = [next(rows) for _ in range(5)]
    values = [None if row is None else row.value for row in seen]
    assert values == [None, 1, 2, None, 2]


def test_a_store_that_does_not_answer_is_told_once_and_asked_again(
    cluster: PodCluster, writer: Writer
) -> None:
    class Away(Store):
        """A client whose first three questions meet no pod."""

        left = 3

        def get_newer(self, *given: Any) -> Any:
            self.left -= 1
            if self.left >= 0:
                raise UnreachableError("no pod answers")
            return super().get_newer(*given)

    writer.write([Record("back", 1, 1000)])
    told: list[str] = []
    with Away(cluster.url, cluster.store) as store:
        row = next(new_rows(store, "back", DEFAULTS, lambda: None, told.append))
    assert row is not None
    assert row.value == 1
    assert told == ["UNREACHABLE: no pod answers; asked again until it answers"]


def test_watch_prints_rows_as_they_are_committed_until_it_is_interrupted(
    cluster: PodCluster, writer: Writer
) -> None:
    writer.write([Record("live", {"n": 1}, 1000)])
    command = [sys.executable, "-m", "qss_client", "watch", "words", "live"]
    process = subprocess.Popen(
        [*command, "--url", cluster.url, "-o", "ndjson"], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    with process.stdout as lines:
        first = json.loads(lines.readline())
        writer.write([Record("live", {"n": 2}, 2000)])
        second = json.loads(lines.readline())
        writer.write([Record("live", None)])
        third = json.loads(lines.readline())
        process.send_signal(signal.SIGINT)
        rest = lines.read()
    assert (process.wait(timeout=600), rest) == (130, "")
    seen_at = [one.pop("seenAt") for one in (first, second, third)]
    assert seen_at == sorted(seen_at)
    assert [first, second, third] == [
        {"key": "live", "value": {"n": 1}, "timestamp": 1000},
        {"key": "live", "value": {"n": 2}, "timestamp": 2000},
        {"key": "live", "absent": True},
    ]


def test_watch_may_end_after_some_rows(terminal: Terminal) -> None:
    done = terminal.run("watch", "words", "a1", "--limit", "1")
    assert (done.code, done.err) == (0, "")
    assert done.out.split()[1:] == ['{"n":1}', "1970-01-01T00:00:01Z"]
    done = terminal.run("watch", "words", "never written", "--limit", "1")
    assert done.out.split()[1:] == ["(absent)"]


def test_watch_asks_at_most_twice_a_second(terminal: Terminal) -> None:
    done = terminal.run("watch", "words", "a1", "--interval", "0.1")
    assert done.code == 2
    assert "0.5" in done.err


# --- qss describe


def test_a_store_is_described(terminal: Terminal) -> None:
    done = terminal.run("describe", "words")
    assert (done.code, done.err) == (0, "")
    facts = dict(line.split(None, 1) for line in done.out.partition("\n\n")[0].splitlines())
    assert facts["type:"] == "KeyValue"
    assert (facts["keySerde:"], facts["valueSerde:"]) == ("string", "json")
    assert (facts["format:"], facts["partitions:"]) == ("Timestamped", "4")
    assert facts["rows:"].startswith("about ")
    assert "estimate" in facts["rows:"]
    assert "writers:\nNAME" in done.out
    assert "PARTITION" in done.out


def test_a_description_is_json_for_programs(terminal: Terminal) -> None:
    found = terminal.json("describe", "words", "--exact")
    written = [value for value in ROWS.values() if value is not None]
    assert (found["rows"], found["rowsAreExact"]) == (len(written) + 1, True)
    assert [one["partition"] for one in found["replicas"]] == [0, 1, 2, 3]
    assert {one["pod"] for one in found["replicas"]} == {"words-0", "words-1"}
    assert {(one["role"], one["lagOffsets"]) for one in found["replicas"]} == {("active", 0)}
    assert [one["name"] for one in found["writers"]] == ["test"]
    assert found["notes"] == []
    # The pods may have measured nothing yet.
    assert found["bytes"] is None or found["bytes"] > 1000


def test_what_a_pod_does_not_tell_is_a_note(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with PodCluster(tmp_path, pods=2, partitions=2) as cluster:
        cluster.pods[1].kill()
        asked = ("describe", "words", "--timeout", "1", "-o", "json")
        done = Terminal(cluster.url, capsys).run(*asked)
        found = json.loads(done.out)
        assert done.code == 0
        assert found["rows"] is None
        assert found["replicas"][0]["state"] == "serving"
        assert "state" not in found["replicas"][1]
        told = "\n".join(found["notes"])
        assert "rows are not counted: " in told
        assert "no lags of words-1: " in told


def test_a_store_looks_as_on_the_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = outputs_of_page("store-pod/docs/command-line.md")
    with (
        PodCluster(tmp_path, partitions=2) as cluster,
        Writer(cluster.url, cluster.store) as writer,
    ):
        writer.write([Record(key, 1, 1000) for key in ("to", "be", "or")])
        terminal = Terminal(cluster.url, capsys)
        for command in ("qss stores", "qss describe words"):
            assert words_of(terminal.run(*command.split()[1:]).out) == words_of(page[command])
        writer.write([Record("be", 2, 1795770000331)])
        first, *_ = page["qss watch words be"].splitlines()
        done = terminal.run("watch", "words", "be", "--limit", "1")
        assert words_of(done.out) == words_of(first)


def test_the_bytes_of_a_store_are_those_that_its_pods_have_measured(
    terminal: Terminal, odd_words: PodCluster
) -> None:
    def measured() -> int | None:
        reports = [pod.report() for pod in odd_words.pods]
        sizes = [one.volume.data_bytes for one in reports if one and one.volume]
        return sum(sizes) if len(sizes) == len(reports) and all(sizes) else None

    least = wait_until(measured, 60.0)
    assert terminal.json("describe", "words")["bytes"] >= least
    assert "(databases and changelogs of all pods)" in terminal.run("describe", "words").out


# --- qss count


def test_the_rows_of_each_partition_are_counted(terminal: Terminal) -> None:
    whole = terminal.json("count", "words", "--exact")["count"]
    found = terminal.json("count", "words", "--exact", "--by-partition")
    assert found["count"] == whole == sum(one["count"] for one in found["partitions"])
    assert [one["partition"] for one in found["partitions"]] == [0, 1, 2, 3]
    done = terminal.run("count", "words", "--by-partition", "--partitions", "1,3")
    lines = [line.split() for line in done.out.splitlines()]
    assert [line[0] for line in lines] == ["PARTITION", "1", "3", "all"]
    assert int(lines[3][1]) == int(lines[1][1]) + int(lines[2][1])
    assert "--exact" in done.err
    csv = terminal.run("count", "words", "--exact", "--by-partition", "-o", "csv").out
    assert csv.splitlines()[0] == "partition,count"
    assert len(csv.splitlines()) == 5


# --- qss stores


def test_the_stores_of_pods_are_listed(terminal: Terminal, odd_words: PodCluster) -> None:
    urls = ",".join(pod.query for pod in odd_words.pods)
    (found,) = terminal.json("stores", "--url", urls)
    assert found == {
        "name": "words",
        "type": "KeyValue",
        "format": "Timestamped",
        "partitions": 4,
        "pods": 2,
        "state": "answers",
        "address": odd_words.url,
    }


def test_the_stores_of_a_local_cluster_are_listed_also_stopped_ones(tmp_path: Path) -> None:
    qss = Qss(tmp_path, REAL_POD)
    none = qss.run("stores")
    assert none.code == 0
    assert "`qss up` starts stores" in none.err
    assert qss.up(manifest(replicas=1, partitions=2)).code == 0
    (found,) = json.loads(qss.run("stores", "-o", "json").out)
    assert (found["name"], found["state"], found["partitions"]) == (STORE, "answers", 2)
    assert qss.down().code == 0
    (found,) = json.loads(qss.run("stores", "-o", "json").out)
    assert found == {"name": STORE, "state": "UNREACHABLE"}


def test_the_stores_of_a_cluster_are_those_of_kubectl(terminal: Terminal) -> None:
    assert "kubectl get qss -A" in terminal.refused(2, "stores", "--kube", "--url", "")
