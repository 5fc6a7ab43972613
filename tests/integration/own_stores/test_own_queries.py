"""A user's query types, installed beside real pods: the example of the guide, and broken ones."""

import os
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from qss_client import ReadOptions, Store
from qss_client.http.sync_http import SyncHttp
from qss_core.errors import MalformedRequestError, StoreError, UnknownQueryTypeError
from qss_testing.clients.qss_command import Qss
from qss_testing.pods.extension_package import entry_points_of_guide, install, modules_of_guide
from qss_testing.pods.pod_process import PodCluster
from qss_testing.writers.writer import Record, Writer

GROUP = "queryable_state.queries"
PODS, PARTITIONS, KEYS = 2, 4, 3000
BAD = '''
class Counting:
    """Takes what `stop_after` says, and fails where it is told to."""

    def __init__(self, parameters, store):
        self.parameters, self.rows, self.calls = parameters, 0, 0
        self.fail("init")

    @property
    def source(self):
        self.fail("source")
        return self.parameters.get("source", {"type": "RangeQuery"})

    def fail(self, where):
        if self.parameters.get("fails") == where:
            raise RuntimeError(f"no luck in {where}")

    def add(self, rows):
        self.fail("add")
        self.rows += len(rows)
        self.calls += 1
        return self.rows < self.parameters.get("stop_after", 1e9)

    def result(self):
        self.fail("result")
        special = {"nothing": object(), "large": "x" * 2_000_000}
        made = {"rows": self.rows, "calls": self.calls}
        return special.get(self.parameters.get("gives"), made)


class Unfinished:
    def __init__(self, parameters, store):
        pass


NUMBER = 5
'''
BAD_POINTS = {
    "Counting": "bad:Counting",
    "Unfinished": "bad:Unfinished",
    "Number": "bad:NUMBER",
    "Missing": "nowhere:Query",
    "KeyQuery": "bad:Counting",
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PodCluster]:
    directory: Path = tmp_path_factory.mktemp("own")
    points = entry_points_of_guide()
    points[GROUP] |= BAD_POINTS
    install(directory / "site", {**modules_of_guide(), "bad.py": BAD}, points)
    paths = [str(directory / "site"), os.environ.get("PYTHONPATH", "")]
    environment = {
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        "QSS_ANSWER_BYTES_MAX": "1000000",
    }
    with PodCluster(directory, pods=PODS, partitions=PARTITIONS, environment=environment) as pods:
        with Writer(pods.pods[0].internal, pods.store) as writer:
            writer.write(Record(f"k{n}", {"flights": n, "half": n // 2}) for n in range(KEYS))
        yield pods


@pytest.fixture
def store(cluster: PodCluster) -> Iterator[Store]:
    with Store(cluster.url, cluster.store) as store:
        yield store


def failures(store: Store, **fields: Any) -> set[str]:
    """The failures of the partitions."""
    result = store.query("Counting", **fields)
    assert len(result.failures) == PARTITIONS
    return {str(error) for error in result.failures.values()}


# --- The query type of the guide


def test_the_guides_query_answers_from_all_pods(store: Store) -> None:
    result = store.query("TopKQuery", by="flights", k=3)
    assert len(result.partition_results) == PARTITIONS
    top = result.rows(key=lambda row: row["value"]["flights"], reverse=True)[:3]
    assert [row["key"] for row in top] == [f"k{KEYS - n}" for n in (1, 2, 3)]
    assert result.position


def test_it_takes_the_options_of_every_query(store: Store) -> None:
    options = ReadOptions(require_active=True, position_bound=store.position)
    result = store.query(
        "TopKQuery", by="half", k=1, partitions=[2], options=options, execution_info=True
    )
    (one,) = result.partition_results.values()
    assert one.execution_info is not None
    assert any("TopKQuery" in line and "rows scanned" in line for line in one.execution_info)
    assert len(one.get_result()) == 1


@pytest.mark.parametrize(
    ("fields", "says"),
    [({}, "'by'"), ({"by": "flights", "k": 0}, "k is 1 to 1000"), ({"by": "n", "k": "x"}, "k")],
)
def test_its_refusals_are_the_callers_400(store: Store, fields: dict[str, Any], says: str) -> None:
    with pytest.raises(MalformedRequestError, match="TopKQuery takes no such members") as told:
        store.query("TopKQuery", **fields)
    assert says in str(told.value)


def test_it_is_asked_from_a_terminal(cluster: PodCluster, tmp_path: Path) -> None:
    asked = ("query", cluster.store, "TopKQuery", "by=flights", "k=1", "-o", "json")
    done = Qss(tmp_path).run(*asked, "--url", cluster.url)
    assert done.code == 0, done.err
    assert f'"k{KEYS - 1}"' in done.out


# --- Rows


def test_rows_come_in_chunks_until_it_has_enough(store: Store) -> None:
    whole = [one.get_result() for one in store.query("Counting").partition_results.values()]
    assert sum(one["rows"] for one in whole) == KEYS
    assert all(one["calls"] > 1 for one in whole)
    some = store.query("Counting", stop_after=1).partition_results.values()
    assert {one.get_result()["calls"] for one in some} == {1}


def test_rows_are_those_of_its_source(store: Store) -> None:
    source = {"type": "RangeQuery", "lower": "k10", "upper": "k1002"}
    found = [
        one.get_result()["rows"]
        for one in store.query("Counting", source=source).partition_results.values()
    ]
    assert sum(found) == len([n for n in range(KEYS) if "k10" <= f"k{n}" <= "k1002"])


# --- Broken query types


@pytest.mark.parametrize("where", ["add", "result"])
def test_what_it_raises_is_the_failure_of_its_partitions(
    store: Store, cluster: PodCluster, where: str
) -> None:
    says = failures(store, fails=where)
    assert all(f"Counting failed: RuntimeError: no luck in {where}" in one for one in says)
    assert "Traceback" in cluster.pods[0].log()
    assert store.get("k1") is not None


@pytest.mark.parametrize("where", ["init", "source"])
def test_what_it_raises_at_once_is_the_requests(store: Store, where: str) -> None:
    with pytest.raises(StoreError, match=f"no luck in {where}"):
        store.query("Counting", fails=where)


def test_results_that_cannot_be_sent(store: Store) -> None:
    assert all("cannot be encoded as JSON" in one for one in failures(store, gives="nothing"))
    assert all("at most 1000000 are answered" in one for one in failures(store, gives="large"))


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ({"type": "KeyQuery", "key": "a"}, "must be a query that returns rows"),
        ({"type": "Nothing"}, "unknown query type 'Nothing'"),
        ({"type": "WindowKeyQuery", "key": "a"}, "is for Window"),
        (5, "query"),
    ],
)
def test_a_source_that_has_no_rows(store: Store, source: object, says: str) -> None:
    with pytest.raises(StoreError, match=says):
        store.query("Counting", source=source)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("Unfinished", "needs source, add and result"),
        ("Number", "TypeError: bad:NUMBER cannot be called"),
        ("Missing", "ModuleNotFoundError"),
    ],
)
def test_a_package_that_does_not_work_is_told_to_who_asks(
    store: Store, cluster: PodCluster, name: str, says: str
) -> None:
    with pytest.raises(StoreError, match=says):
        store.query(name)
    if name != "Unfinished":
        assert f"query type {name} of {BAD_POINTS[name]}" in cluster.pods[0].log()


def test_a_built_in_name_stays_built_in(store: Store, cluster: PodCluster) -> None:
    row = store.query("KeyQuery", key="k1").get_only_partition_result()
    assert row is not None
    assert "query type KeyQuery of bad:Counting: ValueError" in cluster.pods[0].log()


def test_an_unknown_type_is_told_what_there_is(store: Store) -> None:
    with pytest.raises(UnknownQueryTypeError, match=r"RangeQuery.*TopKQuery"):
        store.query("Nowhere")


@pytest.mark.parametrize("member", ["limit", "cursor", "partition"])
def test_members_of_other_queries_are_refused(cluster: PodCluster, member: str) -> None:
    body = {"query": {"type": "TopKQuery", "by": "flights"}}
    body[member] = {"limit": 5, "cursor": "x", "partition": 1}[member]  # type: ignore[assignment]
    with pytest.raises(MalformedRequestError):
        SyncHttp().post(f"{cluster.url}/state/query/{cluster.store}", body, dict)


def test_no_read_makes_a_pod_load_pandas(cluster: PodCluster, store: Store) -> None:
    assert find_spec("pandas") is not None, "what is not installed cannot be loaded"
    assert not store.query("Counting").failures
    assert store.range().to_arrow().num_rows == len(list(store.range())) == KEYS
    for pod in cluster.pods:
        assert pod.process is not None
        loaded = Path(f"/proc/{pod.process.pid}/maps").read_text()
        assert [name for name in ("pyarrow", "pandas") if f"/{name}/" in loaded] == ["pyarrow"]
