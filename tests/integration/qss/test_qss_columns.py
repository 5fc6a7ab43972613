"""`-o csv` and `--columns` of the commands that print rows, against real pods."""

import csv
import io
import json
from collections.abc import Iterator

import pytest

from qss_client.store import Store
from qss_testing.clients.terminal import ROWS, Terminal
from qss_testing.page_commands import outputs_of_page
from qss_testing.pods.pod_process import PodCluster
from qss_testing.writers.writer import Record, Writer

COLUMNS = ("--columns", "flights,distance")


@pytest.fixture(scope="module")
def aircraft(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PodCluster]:
    """The store of the page `store-pod/docs/command-line.md`."""
    directory = tmp_path_factory.mktemp("aircraft")
    with PodCluster(directory, store="aircraft", partitions=1) as cluster:
        with Writer(cluster.url, cluster.store) as writer:
            time = 1388466000000
            rows = {"N14228": {"flights": 111, "distance": 171713}, "N14229": {"flights": 7}}
            writer.write([Record(key, value, time) for key, value in rows.items()])
        yield cluster


def test_csv_has_every_row_as_the_client_reads_it(
    terminal: Terminal, odd_words: PodCluster
) -> None:
    done = terminal.run("scan", "words", "-o", "csv")
    assert (done.code, done.err) == (0, "")
    found = {one["key"]: one for one in csv.DictReader(io.StringIO(done.out, newline=""))}
    with Store(odd_words.url, "words") as store:
        rows = {row.key: row.value for row in store.range()}
    assert set(found) == set(rows) == set(ROWS)
    for key, value in rows.items():
        text = found[key]["value"]
        assert (text if isinstance(value, str) else json.loads(text)) == value
        assert found[key]["timestamp"] == "1000"


def test_csv_tells_times_as_they_are_asked_for(terminal: Terminal) -> None:
    done = terminal.run("get", "words", "a1", "-o", "csv", "--times", "rfc3339")
    assert done.out == 'key,value,timestamp\na1,"{""n"":1}",1970-01-01T00:00:01Z\n'


def test_lists_are_csv(terminal: Terminal) -> None:
    done = terminal.run("count", "words", "--exact", "-o", "csv")
    assert done.out == f"count,exact\n{len(ROWS)},true\n"
    done = terminal.run("stores", "-o", "csv")
    assert done.out.startswith("name,type,format,partitions,pods,state,address\nwords,KeyValue,")
    done = terminal.run("writers", "words", "-o", "csv")
    assert done.out.startswith('name,state,lastBatch,generation,openedAt\ntest,"open')


@pytest.mark.parametrize(
    "command", [("query", "words", "RangeQuery"), ("describe", "words"), ("watch", "words", "a1")]
)
def test_a_command_that_prints_no_rows_has_no_csv(
    terminal: Terminal, command: tuple[str, ...]
) -> None:
    assert "-o csv is for commands that print rows" in terminal.refused(2, *command, "-o", "csv")


def test_columns_are_those_of_the_page(
    aircraft: PodCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    terminal = Terminal(aircraft.url, capsys)
    page = outputs_of_page("store-pod/docs/command-line.md")
    commands = [command for command in page if command.startswith("qss scan aircraft ")]
    assert len(commands) == 2
    for command in commands:
        assert terminal.run(*command.split()[1:]).out == page[command]
    assert "--columns is for" in terminal.refused(2, "scan", "aircraft", *COLUMNS, "-o", "json")
