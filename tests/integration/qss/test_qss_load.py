"""`qss load` against real pods: each row is written exactly once, also by a command that is killed.

A Window store that retains duplicates counts how often a row was written.
"""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from qss_client.cli.load.input_rows import FileFormat, InputFile, InputRow
from qss_client.cli.load.loader import LoadOptions, load
from qss_client.cli.load.ndjson_file import NdjsonFile
from qss_client.cli.load.row_encoder import Columns
from qss_client.http.retries import RetryLimits
from qss_client.kube.connection import ConnectionOptions, CredentialOptions
from qss_client.store import Store
from qss_core.errors import MalformedRequestError
from qss_core.model import StoreType
from qss_testing.clients.terminal import Terminal
from qss_testing.page_commands import outputs_of_page
from qss_testing.pods.pod_process import PodCluster

HOUR_MS = 3_600_000
PAGE = outputs_of_page("store-pod/docs/command-line.md")
# Ends itself by SIGKILL before or after the n-th commit, whose answer nobody gets then.
KILLED = """
import os, signal, sys
from qss_client.cli.load import loader

commits = int(sys.argv.pop(1))
when = sys.argv.pop(1)
for name in ("commit", "write_batch"):
    real = getattr(loader, name)
    def ending(*given, _real=real, **options):
        global commits
        if commits == 0 and when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        answer = _real(*given, **options)
        if commits == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        commits -= 1
        return answer
    setattr(loader, name, ending)

from qss_client.cli.main import main
main(sys.argv[1:])
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PodCluster]:
    with PodCluster(tmp_path_factory.mktemp("loaded"), pods=2, partitions=4) as cluster:
        yield cluster


@pytest.fixture
def qss(cluster: PodCluster, capsys: pytest.CaptureFixture[str]) -> Terminal:
    return Terminal(cluster.url, capsys)


def test_a_killed_load_is_continued_and_writes_no_row_twice(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "hours.csv"
    # One row in four is so long that its batch is staged.
    rows = [f"k{n % 7},{n % 3 * HOUR_MS},{'x' * (n % 4 == 0) * 9000}{n}" for n in range(400)]
    file.write_text("\n".join(["key,window_start,value", *rows]))
    given = ("load", str(file), "--store", "words", "--batch-rows", "50")
    with PodCluster(
        tmp_path,
        pods=2,
        partitions=3,
        type=StoreType.WINDOW,
        window_size_ms=HOUR_MS,
        retention_ms=24 * HOUR_MS,
        retain_duplicates=True,
    ) as cluster:
        url = ("--url", cluster.url)
        for commits, when in ((2, "after"), (1, "before")):
            program = [sys.executable, "-c", KILLED, str(commits), when, *given, *url]
            killed = subprocess.run(program, capture_output=True, timeout=600, check=False)
            assert killed.returncode == -signal.SIGKILL, killed.stderr
        qss = Terminal(cluster.url, capsys)
        assert qss.json(*given)["earlierRows"] == 50 * (3 + 1)
        assert qss.json(*given)["rows"] == 0
        with Store(cluster.url, "words") as store:
            found = [(row.key, row.start, row.value) for row in store.windows()]
    expected = [(key, int(start), value) for key, start, value in (one.split(",") for one in rows)]
    assert sorted(map(repr, found)) == sorted(
        repr((key, start, int(value) if value.isdigit() else value))
        for key, start, value in expected
    )


def test_a_file_is_loaded_once_and_a_changed_one_only_if_it_is_asked_for(
    qss: Terminal, tmp_path: Path
) -> None:
    file = tmp_path / "once.ndjson"
    file.write_text('{"key": "once", "value": {"n": 1.50}, "timestamp": 1000}\n')
    given = ("load", str(file), "-s", "words")
    first = qss.json(*given)
    assert (first["rows"], first["batches"], first["earlierRows"]) == (1, 1, 0)
    again = qss.run(*given)
    assert (
        "loaded 0 rows of once.ndjson into store words in 0 batches, 1 was loaded before"
        in again.out
    )
    assert again.err == "the whole file was loaded before: --again loads it anew\n"
    assert qss.json("get", "words", "once")[0]["value"] == {"n": 1.50}
    file.write_text('{"key": "once", "value": 2}\n{"key": "twice", "value": null}\n')
    refused = qss.refused(1, *given)
    assert "OTHER_CHECKPOINT: once.ndjson has changed since its rows were loaded" in refused
    assert "--again" in refused
    assert qss.json(*given, "--again")["rows"] == 2
    assert qss.json(*given)["earlierRows"] == 2
    assert "other columns or another --batch-rows" in qss.refused(1, *given, "--batch-rows", "1")
    assert qss.json("get", "words", "once")[0]["value"] == 2


@dataclass(frozen=True)
class _Overwritten(LoadOptions):
    """A file that another program writes while its fourth row is read."""

    def open(self) -> InputFile:
        source = NdjsonFile(self.path)
        read = source.rows

        def rows() -> Iterator[InputRow]:
            for row in read():
                if row.line == 4:
                    self.path.write_bytes(self.path.read_bytes().replace(b"old", b"new"))
                yield row

        source.rows = rows  # type: ignore[method-assign]
        return source


@pytest.mark.parametrize("length", [1, 9000], ids=["carried", "staged"])
def test_a_batch_that_was_read_while_the_file_was_written_is_not_committed(
    length: int, cluster: PodCluster, qss: Terminal, tmp_path: Path
) -> None:
    file = tmp_path / "written.ndjson"
    rows = [f'{{"key": "w{length}-{n}", "value": "old{"x" * length}"}}\n' for n in range(4)]
    file.write_text("".join(rows))
    options = _Overwritten(path=file, format=FileFormat.NDJSON, columns=Columns(), batch_rows=2)
    to = ConnectionOptions(urls=(cluster.url,), store="words", shown=CredentialOptions())
    with closing(to.http()) as http, pytest.raises(MalformedRequestError, match="was written"):
        load(http, to, options, RetryLimits(), lambda *_: None)
    found = qss.run("scan", "words", "--prefix", f"w{length}-", "-o", "ndjson").out.splitlines()
    assert sorted(json.loads(one)["key"] for one in found) == [f"w{length}-0", f"w{length}-1"]


def test_a_large_batch_tells_its_progress(cluster: PodCluster, tmp_path: Path) -> None:
    file = tmp_path / "large.ndjson"
    row = '{{"key": "l{}", "value": "{}"}}\n'
    file.write_text("".join(row.format(n, "x" * 7_000_000) for n in range(4)))
    small = tmp_path / "small.ndjson"
    small.write_text(row.format("of one", "x"))
    to = ConnectionOptions(urls=(cluster.url,), store="words", shown=CredentialOptions())
    told: list[str] = []
    with closing(to.http()) as http:
        for path in (file, small):
            options = LoadOptions(path=path, format=FileFormat.NDJSON, columns=Columns())
            load(http, to, options, RetryLimits(), lambda what, _: told.append(what))
    progress = [one for one in told if not one.startswith("reading")]
    sent = ["sent 3 rows of batch 0", "sent 4 rows of batch 0"]
    assert progress[-4:] == [*sent, "loaded 4 rows", "loaded 1 row"]


def test_what_csv_prints_is_loaded_as_it_was(qss: Terminal, tmp_path: Path) -> None:
    rows = [("plain", '"ten"'), ("number", "1"), ("object", '{"a": 1}'), ("empty", '""')]
    first = tmp_path / "first.ndjson"
    first.write_text(
        "".join(
            f'{{"key": "csv-{key}", "value": {value}, "timestamp": 5}}\n' for key, value in rows
        )
    )
    assert qss.json("load", str(first), "-s", "words")["rows"] == 4
    printed = qss.run("scan", "words", "--prefix", "csv-", "-o", "csv").out
    copied = tmp_path / "copied.csv"
    copied.write_text(printed.replace("csv-", "copied-"))
    assert qss.json("load", str(copied), "-s", "words")["rows"] == 4
    again = qss.run("scan", "words", "--prefix", "copied-", "-o", "csv").out
    assert sorted(again.splitlines()) == sorted(copied.read_text().splitlines())


def test_parquet_is_loaded_with_its_types(qss: Terminal, tmp_path: Path) -> None:
    file = tmp_path / "typed.parquet"
    parquet.write_table(
        pa.table({"id": ["typed"], "zip": ["10115"], "n": [7], "tags": [["a", None]]}), file
    )
    assert qss.json("load", str(file), "-s", "words", "--key", "id")["rows"] == 1
    (row,) = qss.json("get", "words", "typed")
    assert row["value"] == {"zip": "10115", "n": 7, "tags": ["a", None]}


def test_lines_that_do_not_fit_are_named_and_their_batch_is_not_written(
    qss: Terminal, tmp_path: Path
) -> None:
    file = tmp_path / "bad.csv"
    file.write_text("key,value\nbad-1,1\nbad-2,2\nbad-3,3,4\n,5\n")
    given = ("load", str(file), "-s", "words", "--batch-rows", "2")
    for options in (("--check",), ()):
        done = qss.run(*given, *options)
        assert (done.code, done.out) == (2, "")
        assert done.err.splitlines() == [
            "error: MALFORMED_REQUEST: line 4: it has 3 fields, the header has 2",
            'error: MALFORMED_REQUEST: line 5: column "key" is null: a row has a key',
        ]
        found = qss.run("scan", "words", "--prefix", "bad-", "-o", "ndjson").out.splitlines()
        assert len(found) == (0 if options else 2)
    file.write_text("key,value\nbad-1,1\n")
    assert qss.run(*given, "--check").out == "the row of bad.csv fits store words\n"


def test_a_load_that_cannot_be_is_refused(qss: Terminal, tmp_path: Path) -> None:
    file = tmp_path / "some.txt"
    file.write_text("key,value\n")
    assert "--format csv" in qss.refused(2, "load", str(file), "-s", "words")
    given = ("load", str(file), "-s", "words", "--format", "csv")
    assert "--key has names" in qss.refused(2, *given, "--key", "a,,b")
    assert "no column a" in qss.refused(2, *given, "--key", "a")
    assert "inside of the cluster" in qss.refused(2, *given, "--kube")
    assert qss.json(*given)["rows"] == 0


def test_a_pipe_is_refused_because_a_file_is_read_twice(qss: Terminal) -> None:
    reading, writing = os.pipe()
    os.close(writing)
    try:
        given = ("load", f"/dev/fd/{reading}", "-s", "words", "--format", "ndjson")
        assert "is no regular file: qss load reads it twice" in qss.refused(2, *given)
    finally:
        os.close(reading)


def test_a_load_looks_as_on_the_page(
    cluster: PodCluster,
    qss: Terminal,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("planes.csv").write_text(PAGE["cat planes.csv"])
    done = qss.run("load", "planes.csv", "--store", "words", "--key", "tailnum")
    assert done.out == PAGE["qss load planes.csv --store words --key tailnum"]
    command = "qss get words N103US -o csv --columns year,seats"
    printed = re.sub("[0-9]{13}", "1795770000000", qss.run(*command.split()[1:]).out)
    assert printed == PAGE[command]
    writers = [one["name"] for one in json.loads(qss.run("writers", "words", "-o", "json").out)]
    assert any(name.startswith("load-planes.csv-") for name in writers)
