"""A user's store type, the example of the guide, installed beside real pods."""

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from random import Random  # noqa: TID251 seeded.
from typing import Any

import pytest

from qss_client import ReadOptions, Store
from qss_client.http.sync_http import SyncHttp
from qss_client.writes.batch import commit, stage, write_batch
from qss_core.errors import (
    MalformedRequestError,
    StoreError,
    StoreTypeRefusedError,
    UnknownQueryTypeError,
)
from qss_core.model import Isolation
from qss_core.partitioning import partition_of
from qss_core.wire.replica_reports import ReplicasReport
from qss_testing.clients.qss_command import Qss
from qss_testing.pods.extension_package import install_guide
from qss_testing.pods.own_store_pods import running
from qss_testing.pods.pod_process import PodCluster, PodProcess
from qss_testing.waiting import wait_until
from qss_testing.writers.process_writer import IMPATIENT
from qss_testing.writers.writer import Record, Writer, slices

ORIGINS = ["EWR", "JFK", "LGA", "ÅÄÖ", ""]
Rows = dict[str, dict[str, Any]]
Entry = tuple[str, str]  # Index key and key.


def is_served(cluster: PodCluster) -> bool:
    """Whether every pod serves all its partitions."""
    reports = [pod.report() for pod in cluster.pods]
    return all(report is not None and report.ready for report in reports)


def failed_report(pod: PodProcess) -> ReplicasReport | None:
    """The report of a pod with a failed replica."""
    report = pod.report()
    has_failed = report is not None and any(one.state == "failed" for one in report.replicas)
    return report if has_failed else None


def entries(rows: Rows, partitions: int) -> list[Entry]:
    """The index of origins in the order of an answer: partition by partition."""
    found = [(row["origin"], key) for key, row in rows.items() if row.get("origin") is not None]
    return sorted(
        found,
        key=lambda one: (
            partition_of(one[1].encode(), partitions),
            one[0].encode(),
            one[1].encode(),
        ),
    )


def check(cluster: PodCluster, rows: Rows) -> None:
    """Every pod answers the index of all partitions, for every kind of request."""
    partitions = cluster.assignment.definition.partitions
    wanted = entries(rows, partitions)
    for pod in cluster.pods:
        with Store(pod.query, cluster.store, direct=False) as store:
            assert {row.key: row.value for row in store.range()} == rows
            paged = [
                (row.index_key, row.key) for row in store.range(index="by-origin", limit=10**6)
            ]
            assert paged == wanted
            inside = [one for one in wanted if "EWR" <= one[0] <= "JFK"]
            asked = store.query("IndexQuery", index="by-origin", lower="EWR", upper="JFK")
            assert [(row["indexKey"], row["key"]) for row in asked.rows()] == inside
            assert all(row["value"] == rows[row["key"]] for row in asked.rows())
            counts = store.query("CountByIndexQuery", index="by-origin").partition_results
            told = [one.get_result() for one in counts.values()]
            assert sum(one.get("EWR", 0) for one in told) == sum(e[0] == "EWR" for e in wanted)


@pytest.mark.parametrize("pods", [1, 3])
def test_the_guides_store_is_asked_by_its_index_whatever_happens(pods: int, tmp_path: Path) -> None:
    random, rows = Random(pods), Rows()
    install_guide(tmp_path / "site")
    with running(tmp_path, pods) as cluster:
        for step in range(10):
            some = [f"N{random.randrange(400)}" for _ in range(random.choice([3, 30, 300]))]
            batch: dict[str, Any] = {}
            for key in some:
                batch[key] = random.choice(
                    [None, {}, *({"origin": one, "step": step} for one in ORIGINS)]
                )
            is_replacing = step == 6
            with Writer(cluster.pods[0].internal, cluster.store) as writer:
                writer.write((Record(*one) for one in batch.items()), replace=is_replacing)
            rows = {} if is_replacing else rows
            rows = {key: row for key, row in {**rows, **batch}.items() if row is not None}
            check(cluster, rows)
            pod = cluster.pods[random.randrange(pods)]
            if step in (2, 6):
                pod.kill()
            elif step == 4:
                assert pod.stop() == 0
            if pod.process is None:
                pod.start()
                wait_until(lambda: is_served(cluster))
                check(cluster, rows)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PodCluster]:
    directory = tmp_path_factory.mktemp("own-store")
    install_guide(directory / "site")
    with running(directory, 2) as pods:
        with Writer(pods.pods[0].internal, pods.store) as writer:
            writer.write(Record(f"N{n}", {"origin": ORIGINS[n % 3]}) for n in range(90))
        yield pods


@pytest.fixture
def store(cluster: PodCluster) -> Iterator[Store]:
    with Store(cluster.url, cluster.store) as store:
        yield store


# --- Reads


def test_limits_cursors_and_orders(store: Store, cluster: PodCluster) -> None:
    wanted = [(row.index_key, row.key) for row in store.range(index="by-origin")]
    assert len(wanted) == 90
    some = store.query("IndexQuery", index="by-origin", limit=7)
    assert [(row["indexKey"], row["key"]) for row in some.rows()] == wanted[:7]
    http = SyncHttp()
    body: dict[str, Any] = {"query": {"type": "IndexQuery", "index": "by-origin"}, "limit": 13}
    found: list[Entry] = []
    for _ in range(7):
        answer = http.post(f"{cluster.url}/state/query/{cluster.store}", body, dict)
        parts = answer["partitionResults"]
        found += [
            (row["indexKey"], row["key"])
            for number in sorted(parts, key=int)
            for row in parts[number]["result"]
        ]
        body["cursor"] = answer.get("cursor")
    assert (found, body["cursor"]) == (wanted, None)
    http.close()
    backward = [
        row.key for row in store.range(index="by-origin", order="DESCENDING", partitions=[1])
    ]
    forward = [row.key for row in store.range(index="by-origin", partitions=[1])]
    assert backward == forward[::-1]
    options = ReadOptions(require_active=True, position_bound=store.position)
    assert len([*store.range("LGA", index="by-origin", options=options)]) == 30


def test_arrow_has_the_index_key(store: Store) -> None:
    table = store.range("EWR", "EWR", index="by-origin").to_arrow()
    assert table.schema.names == ["key", "index_key", "value", "timestamp"]
    assert table.column("index_key").to_pylist() == ["EWR"] * 30


def test_it_is_asked_from_a_terminal(cluster: PodCluster, tmp_path: Path) -> None:
    asked = ("query", cluster.store, "IndexQuery", "index=by-origin", "lower=JFK", "upper=JFK")
    done = Qss(tmp_path).run(*asked, "-o", "json", "--url", cluster.url)
    assert done.code == 0, done.err
    assert done.out.count('"indexKey": "JFK"') == 30


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"index": "by-tail"}, "no index 'by-tail': there are by-origin"),
        ({}, "index"),
        ({"index": 5}, "index"),
        ({"index": "by-origin", "lower": 5}, "string expected"),
        ({"index": "by-origin", "lower": "b", "upper": "a"}, "lies above"),
        ({"index": "by-origin", "lower": "x" * 2000}, "at most 1024"),
        ({"index": "by-origin", "order": "UP"}, "order"),
        ({"index": "by-origin", "prefix": "a"}, "prefix"),
    ],
)
def test_queries_that_are_refused(store: Store, fields: dict[str, Any], says: str) -> None:
    with pytest.raises(StoreError, match=says) as told:
        store.query("IndexQuery", **fields)
    assert told.value.http_status in (400, 413)


def test_a_store_without_indexes_says_so(tmp_path: Path) -> None:
    says = pytest.raises(UnknownQueryTypeError, match="has no indexes")
    with PodCluster(tmp_path, partitions=1) as pods, Store(pods.url, pods.store) as store, says:
        store.query("IndexQuery", index="by-origin")


def test_the_type_is_shown_as_it_is(store: Store, cluster: PodCluster) -> None:
    told = SyncHttp().get(f"{cluster.url}/state/stores", dict)
    assert told["stores"] == [{"name": cluster.store, "type": "Custom"}]
    assert store.metadata().definition.custom_options == (("member", "origin"),)
    assert 50 <= store.count() <= 130
    assert [row.key for row in store.prefix("N8")][:2]


# --- Writers


def records(rows: Mapping[str, Any]) -> Iterable[Record]:
    return (Record(*one) for one in rows.items())


@pytest.mark.parametrize("is_small", [True, False])
def test_a_row_that_the_type_cannot_take_is_refused_before_it_is_written(
    is_small: bool, store: Store, cluster: PodCluster
) -> None:
    rows_before = store.query("IndexQuery", index="by-origin").rows()
    before = [(row["indexKey"], row["key"]) for row in rows_before]
    with Writer(cluster.pods[1].internal, cluster.store) as writer:
        rows: dict[str, Any] = {"bad": ["no member"]}
        bad = slices(cluster.assignment.definition, records({"good": {}, **rows}))
        run = writer.http, writer.run, writer.batch
        write_small = partial(write_batch, *run, bad, position={}, fingerprint="small")
        write = write_small if is_small else partial(writer.write, records(rows))
        with pytest.raises(MalformedRequestError) as told:
            write()
        assert "ByMember (version 1) failed at the row of key 'bad': AttributeError" in str(
            told.value
        )
        with pytest.raises(MalformedRequestError, match="string expected, got the number 5"):
            writer.write(records({"bad": {"origin": 5}}))
        writer.write(records({"N0": {"origin": ORIGINS[0]}}))
    after = store.query("IndexQuery", index="by-origin").rows()
    assert [(row["indexKey"], row["key"]) for row in after] == before
    assert store.get("good") is None
    assert store.get("bad") is None


# --- The package


def refusal(cluster: PodCluster) -> str:
    """A pod's refusal of its assignment."""
    with pytest.raises(StoreError) as told:
        cluster.assign(cluster.pods[0])
    return str(told.value)


def test_options_that_the_type_does_not_take_are_refused(tmp_path: Path) -> None:
    install_guide(tmp_path / "site")
    options = (("top", "5"),)
    with pytest.raises(StoreTypeRefusedError) as told, running(tmp_path, 1, custom_options=options):
        pass
    assert "spec.store.custom.options: the store type ByMember does not take them" in str(
        told.value
    )
    assert "KeyError: 'member'" in str(told.value)


def test_a_pod_without_the_package_takes_no_assignment_and_loses_nothing(tmp_path: Path) -> None:
    install_guide(tmp_path / "site")
    with running(tmp_path, 1) as cluster:
        pod = cluster.pods[0]
        with Writer(pod.internal, cluster.store) as writer:
            writer.write(records({"N1": {"origin": "EWR"}}))
        pod.kill()
        (tmp_path / "site").rename(tmp_path / "away")
        pod.start()

        def opened() -> ReplicasReport | None:
            told = pod.report()
            return told if told is not None and told.replicas else None

        report = wait_until(opened)
        assert {replica.state for replica in report.replicas} == {"failed"}
        assert all("no package in this pod" in str(one.error) for one in report.replicas)
        assert "STORE_TYPE_REFUSED" in refusal(cluster)
        says = pytest.raises(StoreError, match="no package in this pod")
        with Store(cluster.url, cluster.store) as store, says:
            store.get("N1", ReadOptions(timeout_s=0.5))
        assert pod.stop() == 0
        (tmp_path / "away").rename(tmp_path / "site")
        pod.start()
        check(cluster, {"N1": {"origin": "EWR"}})


def test_a_package_that_fails_at_a_commit_stops_its_partition_until_it_is_mended(
    tmp_path: Path,
) -> None:
    install_guide(tmp_path / "site")
    before = {f"N{n}": {"origin": "EWR"} for n in range(40)}
    after = {key: {"origin": "JFK"} for key in before} | {"N7": {"origin": "LGA"}}
    fault = "member = value.get(self._member)"
    with (
        running(tmp_path, 1) as cluster,
        Store(cluster.url, cluster.store, monotonic=False) as store,
    ):
        pod, partitions = cluster.pods[0], cluster.assignment.definition.partitions
        with Writer(pod.internal, cluster.store) as writer:
            writer.write(records(before))
            run = writer.http, writer.run, writer.batch
            staged = stage(*run, "t0a0-0", slices(cluster.assignment.definition, records(after)))
            pod.kill()
            install_guide(tmp_path / "site", {fault: f"{fault}; 1 / (member != 'LGA')"})
            pod.start()
            wait_until(lambda: is_served(cluster))
            with pytest.raises(StoreError, match="not applied everywhere yet"):
                commit(*run, staged, position={}, fingerprint="x", limits=IMPATIENT)
        failed = partition_of(b"N7", partitions)
        report = wait_until(lambda: failed_report(pod))
        assert [one.state == "failed" for one in report.replicas] == [
            number == failed for number in range(partitions)
        ]
        error, detail = str(report.replicas[failed].error), str(report.replicas[failed].detail)
        assert "ByMember (version 1) failed at the row" in error
        assert "'N7': ZeroDivisionError" in detail
        assert "N7" not in error + pod.log()
        (told,) = store.query(
            "IndexQuery", index="by-origin", partitions=[failed]
        ).partition_results.values()
        assert {row["indexKey"] for row in told.get_result()} == {"EWR"}
        pod.kill()
        install_guide(tmp_path / "site")
        pod.start()
        wait_until(lambda: [row.key for row in store.range("LGA", "LGA", index="by-origin")])
        check(cluster, after)


def test_another_version_makes_the_indexes_anew_also_when_it_is_killed(tmp_path: Path) -> None:
    install_guide(tmp_path / "site")
    rows = {f"N{n}": {"origin": ORIGINS[n % 3]} for n in range(20_000)}
    with running(tmp_path, 1) as cluster:
        pod = cluster.pods[0]
        with Writer(pod.internal, cluster.store) as writer:
            writer.write(records(rows))
        pod.kill()
        # In the next version the index key is the last letter.
        change = {
            "version = 1": "version = 2",
            "(self._index, member)": "(self._index, member[-1:])",
        }
        install_guide(tmp_path / "site", change)
        pod.start()
        pod.kill()
        pod.start()
        wait_until(lambda: is_served(cluster), 300.0)
        with Store(cluster.url, cluster.store) as store:
            assert len([*store.range("R", "R", index="by-origin")]) == 6667
            assert len([*store.range(index="by-origin")]) == 20_000
        assert "the indexes of store type ByMember (version 2) are made: " in pod.log()


def test_an_isolation_that_sees_staged_rows_finds_them_by_the_index(tmp_path: Path) -> None:
    install_guide(tmp_path / "site")
    with (
        running(tmp_path, 1, isolation=Isolation.READ_UNCOMMITTED) as cluster,
        Writer(cluster.pods[0].internal, cluster.store) as writer,
        Store(cluster.url, cluster.store) as store,
    ):
        writer.write(records({"N1": {"origin": "EWR"}, "N2": {"origin": "JFK"}}))
        rows = records({"N1": {"origin": "LGA"}, "N3": {"origin": "JFK"}})
        staged = slices(cluster.assignment.definition, rows)
        stage(writer.http, writer.run, writer.batch, "t0a0-0", staged)
        seen = {(row.index_key, row.key) for row in store.range(index="by-origin")}
        assert seen == {("LGA", "N1"), ("JFK", "N2"), ("JFK", "N3")}
        committed = ReadOptions(isolation=Isolation.READ_COMMITTED)
        found = store.range(index="by-origin", options=committed)
        assert {(row.index_key, row.key) for row in found} == {("EWR", "N1"), ("JFK", "N2")}
