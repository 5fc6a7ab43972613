"""`qss get` and `qss query`: output and exit codes."""

import io
import json
import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from qss_client.cli.program import write_what_cannot_be_shown_as_escapes
from qss_core.positions import Position, encode_token
from qss_testing.clients.qss_command import REAL_POD, Qss
from qss_testing.clients.terminal import LONG, Terminal
from qss_testing.pods.pod_process import PodCluster
from qss_testing.writers.writer import write_values

QUERY = ("query", "words", "KeyQuery", "key=a1", "--output", "json")


# --- get


def test_a_key_is_shown_as_a_table(terminal: Terminal) -> None:
    done = terminal.run("get", "words", "a1")
    assert (done.code, done.err) == (0, "")
    lines = [line.split() for line in done.out.splitlines()]
    assert lines == [["KEY", "VALUE", "TIMESTAMP"], ["a1", '{"n":1}', "1970-01-01T00:00:01Z"]]


def test_a_key_is_shown_as_json_and_as_lines(terminal: Terminal) -> None:
    row = {"key": "a1", "value": {"n": 1}, "timestamp": 1000}
    assert terminal.json("get", "words", "a1") == [row]
    done = terminal.run("get", "words", "a1", "a2", "-o", "ndjson")
    assert [json.loads(line) for line in done.out.splitlines()] == [
        row,
        {"key": "a2", "value": [1, "two", None], "timestamp": 1000},
    ]


@pytest.mark.parametrize("key", ["b/2 %", "", "ä", "c\x1b[31m\n"])
def test_a_key_may_be_any_text(terminal: Terminal, key: str) -> None:
    assert [row["key"] for row in terminal.json("get", "words", key)] == [key]


def test_a_key_that_is_no_text_is_refused(terminal: Terminal) -> None:
    done = terminal.run("get", "words", b"\xff".decode(errors="surrogateescape"))
    assert done.code == 2
    assert "a key is written in UTF-8" in done.err


def test_a_key_that_is_not_there_ends_with_3(terminal: Terminal) -> None:
    said = terminal.refused(3, "get", "words", "nope")
    assert said == "error: KEY_NOT_FOUND: store words has no 'nope'\n"


def test_of_many_keys_those_that_are_there_are_shown(terminal: Terminal) -> None:
    done = terminal.run("get", "words", "a1", "nope", "a2", "no", "-o", "ndjson")
    assert done.code == 3
    assert [json.loads(line)["key"] for line in done.out.splitlines()] == ["a1", "a2"]
    assert done.err == "error: KEY_NOT_FOUND: store words has no 'nope', 'no'\n"


# --- query


def test_a_query_shows_each_partitions_answer(terminal: Terminal) -> None:
    done = terminal.run("query", "words", "RangeQuery", "lower=a", "upper=b")
    assert done.code == 0
    assert done.out.split()[:5] == ["PARTITION", "RESULT", "SEQUENCE", "SERVED", "BY"]
    (answer,) = terminal.json("query", "words", "KeyQuery", "key=a1")
    assert answer["result"] == {"key": "a1", "value": {"n": 1}}
    assert answer["position"] == {"@batch.test": {"1": 0}, "in": {"0": 5}}
    assert (answer["sequence"], answer["role"], answer["epoch"]) == (1, "active", 1)


def test_a_query_may_be_limited_and_explained(terminal: Terminal) -> None:
    done = terminal.run("query", "words", "RangeQuery", "--limit", "2", "-o", "json")
    assert sum(len(answer["result"]) for answer in json.loads(done.out)) == 2
    assert done.err.startswith("these are 2 rows, and there are more: go on with --cursor ")
    done = terminal.run("query", "words", "KeyQuery", "key=a1", "--execution-info")
    assert done.code == 0
    assert len(done.out.splitlines()) > 2


@pytest.mark.parametrize("missing", ["99", "70000"])
def test_a_query_of_which_a_partition_fails_ends_with_1(terminal: Terminal, missing: str) -> None:
    partitions = f"0,{missing}"
    done = terminal.run("query", "words", "RangeQuery", "--partitions", partitions, "-o", "ndjson")
    assert done.code == 1
    first, second = map(json.loads, done.out.splitlines())
    assert "result" in first
    assert second["failure"].startswith("DOES_NOT_EXIST: ")


# --- Exit codes


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("scan", "words", "--prefix", "a", "--from", "b"), "MALFORMED_REQUEST: give either"),
        (("scan", "words", "--from", "b", "--to", "a"), "RANGE_REVERSED: "),
        (("scan", "words", "--partitions", "0,x"), "MALFORMED_REQUEST: partitions are numbers"),
        (("scan", "words", "--position-bound", "{no"), "MALFORMED_REQUEST: "),
        (("scan", "words", "--position-bound", "[1]"), "MALFORMED_REQUEST: positionBound"),
        (("get", "words", "a1", "--position-bound", "!"), "MALFORMED_REQUEST: positionBound"),
        (("get", "words", "a1", "--timeout", "-1"), "MALFORMED_REQUEST: timeout"),
        (("query", "words", "KeysQuery", "key=a"), "UNKNOWN_QUERY_TYPE: "),
        (("query", "words", "KeyQuery", "key"), "MALFORMED_REQUEST: a field is written name=value"),
        (("query", "words", "KeyQuery", "keys=a"), "MALFORMED_REQUEST: "),
        (("get", "words", "a1", "--url", "127.0.0.1"), "MALFORMED_REQUEST: a URL like"),
    ],
)
def test_wrong_input_ends_with_2(terminal: Terminal, arguments: Any, said: str) -> None:
    assert terminal.refused(2, *arguments).startswith(f"error: {said}")


@pytest.mark.parametrize(
    ("more", "advice"),
    [((), "for the reverse order add --descending"), (("--descending",), "with --descending too")],
)
def test_a_range_upside_down_is_told_in_the_words_of_the_command(
    terminal: Terminal, more: tuple[str, ...], advice: str
) -> None:
    said = terminal.refused(2, "scan", "words", "--from", "b", "--to", "a", *more)
    assert said.startswith("error: RANGE_REVERSED: --from lies above --to")
    assert said.endswith(f"--from is the smaller one, {advice}\n")


@pytest.mark.parametrize(
    "arguments",
    [
        ("scan", "words", "--limit", "0"),
        ("scan", "words", "--output", "xml"),
        ("scan", "words", "--nothing"),
        ("scan",),
    ],
)
def test_wrong_usage_ends_with_2(terminal: Terminal, arguments: Any) -> None:
    done = terminal.run(*arguments)
    assert (done.code, done.out) == (2, "")
    assert "Usage: qss scan" in done.err


def test_a_store_or_partition_that_is_not_there_ends_with_3(terminal: Terminal) -> None:
    assert "STORE_NOT_FOUND: this pod serves store words" in terminal.refused(3, "get", "word", "a")
    assert "DOES_NOT_EXIST" in terminal.refused(3, "scan", "words", "--partitions", "99")


def test_what_is_not_available_now_ends_with_4(terminal: Terminal) -> None:
    ahead = encode_token(Position.of({"in": {0: 6}}))
    waiting = ("--timeout", "2", "--position-bound")
    assert "NOT_UP_TO_BOUND" in terminal.refused(4, "get", "words", "a1", *waiting, ahead)
    bound = '{"in": {"0": 6}}'
    assert "NOT_UP_TO_BOUND" in terminal.refused(4, "scan", "words", *waiting, bound)
    assert terminal.json("get", "words", "a1", "--position-bound", '{"in": {"0": 5}}')


def test_times_are_shown_as_they_are_asked_for(terminal: Terminal) -> None:
    for command in (("get", "words", "a1"), ("scan", "words", "--prefix", "a1")):
        assert "1970-01-01T00:00:01Z" in terminal.run(*command).out
        assert " 1000" in terminal.run(*command, "--times", "millis").out
        (row,) = terminal.json(*command, "--times", "rfc3339")
        assert row["timestamp"] == "1970-01-01T00:00:01Z"
    (writer,) = terminal.json("writers", "words")
    assert isinstance(writer["openedAt"], int)
    (writer,) = terminal.json("writers", "words", "--times", "rfc3339")
    assert writer["openedAt"].endswith("Z")


# --- As processes


def test_version_and_help() -> None:
    out, _ = qss("--version").communicate(timeout=600)
    assert out == f"qss {version('queryable-state')}\n"
    for command in (("-h",), ("get", "-h")):
        out, _ = qss(*command).communicate(timeout=600)
        assert "Usage: qss" in out


def qss(*arguments: str, **environment: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "qss_client", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
    )


def test_the_url_may_be_in_the_environment(odd_words: PodCluster) -> None:
    out, err = qss(*QUERY, QSS_URL=odd_words.url).communicate(timeout=600)
    assert json.loads(out)[0]["result"]["value"] == {"n": 1}, err


@pytest.mark.parametrize("output", ["ndjson", "json", "table"])
def test_a_reader_that_has_seen_enough_ends_it_quietly(tmp_path: Path, output: str) -> None:
    with PodCluster(tmp_path) as large:
        write_values(large.url, large.store, {f"{number:05}": LONG for number in range(3000)})
        process = qss("scan", "words", "--limit", "3000", "-o", output, "--url", large.url)
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline()
        process.stdout.close()
        said = process.stderr.read()
        process.stderr.close()
        assert process.wait(timeout=600) in (0, 1)
        assert said == ""


def test_an_output_that_cannot_be_written_is_a_failure(odd_words: PodCluster) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "qss_client", *QUERY, "--url", odd_words.url],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            timeout=600,
        )
    assert done.returncode == 1
    assert done.stderr == "error: [Errno 28] No space left on device\n"


def test_the_local_cluster_is_found_by_its_directory(tmp_path: Path) -> None:
    local = Qss(tmp_path, REAL_POD)
    try:
        assert local.up().code == 0
        url = local.status()["status"]["endpoints"]["query"]
        write_values(url, "word-counts", {"a": 7})
        done = local.run("get", "word-counts", "a", "-o", "json")
        assert [row["value"] for row in json.loads(done.out)] == [7], done.err
    finally:
        local.down()
    gone = local.run("get", "word-counts", "a", "--timeout", "0.5")
    assert gone.code == 4
    assert gone.err.startswith("error: UNREACHABLE: ")
    assert len(gone.err.splitlines()) == 1
    nowhere = Qss(tmp_path / "nowhere").run("get", "words", "a")
    assert nowhere.code == 3
    assert "give its URL (qss: --url" in nowhere.err


def test_a_locale_without_a_letter_shows_its_escape(odd_words: PodCluster) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "qss_client", "get", "words", "ä", "--url", odd_words.url],
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "\\u00e4    true" in done.stdout


def test_json_stays_json_where_a_letter_cannot_be_shown() -> None:
    bytes_out = io.BytesIO()
    output = io.TextIOWrapper(bytes_out, encoding="latin-1")
    write_what_cannot_be_shown_as_escapes(output)
    output.write(json.dumps("ä ☃ 😀", ensure_ascii=False))
    output.flush()
    assert json.loads(bytes_out.getvalue().decode("latin-1")) == "ä ☃ 😀"
