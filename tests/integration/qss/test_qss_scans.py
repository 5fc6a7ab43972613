"""`qss scan`, and the tables that commands print."""

import asyncio
import os
import pty
import subprocess
import sys
from contextlib import closing, suppress

import pytest

from qss_client.cli.printing import ROWS_SHOWN
from qss_testing.clients.terminal import LONG, ROWS, Terminal
from qss_testing.pods.pod_process import PodCluster
from qss_testing.pods.timed_stores import StartCluster

# --- Tables


def test_in_a_pipe_a_row_is_a_line_and_nothing_is_cut(terminal: Terminal) -> None:
    lines = terminal.run("scan", "words").out.splitlines()
    assert len(lines) == 1 + len(ROWS)
    assert sum(LONG in line for line in lines) == 1
    assert LONG in terminal.run("query", "words", "KeyQuery", "key=b1").out.splitlines()[1]


def test_on_a_terminal_what_is_too_wide_ends_with_an_ellipsis(odd_words: PodCluster) -> None:
    def said(*arguments: str) -> list[str]:
        parent, child = pty.openpty()
        with closing(os.fdopen(parent, "rb", buffering=0)) as output:
            with closing(os.fdopen(child, "wb", buffering=0)) as terminal:
                command = [sys.executable, "-m", "qss_client", *arguments, "--url", odd_words.url]
                environment = {**os.environ, "COLUMNS": "60"}
                process = subprocess.Popen(command, stdout=terminal, env=environment)
            text = b""
            with suppress(OSError):  # A terminal ends in this way.
                while part := output.read(65536):
                    text += part
        assert process.wait(timeout=600) == 0
        return text.decode().splitlines()

    heading, row = said("get", "words", "b1")
    assert heading.split() == ["KEY", "VALUE", "TIMESTAMP"]
    assert row.split() == ["b1", "x" * 32 + "…", "1970-01-01T00:00:01Z"]
    assert len(row) <= 60
    assert LONG in said("get", "words", "b1", "-o", "ndjson")[0], "JSON is never cut"


def test_a_value_is_no_markup_and_no_command_to_the_terminal(terminal: Terminal) -> None:
    assert ":smile: [red]x[/red]" in terminal.run("get", "words", "b/2 %").out
    done = terminal.run("get", "words", "c\x1b[31m\n")
    assert "\x1b" not in done.out
    assert r'"c\u001b[31m\n"' in done.out
    assert r'"esc \u001b[31m"' in done.out


# --- scan


def test_a_scan_prints_everything_or_a_part(terminal: Terminal) -> None:
    def scanned(*arguments: str) -> list[str]:
        return sorted(row["key"] for row in terminal.json("scan", "words", *arguments))

    assert scanned() == sorted(ROWS)
    assert scanned("--prefix", "b") == ["b/2 %", "b1"]
    assert scanned("--from", "a2", "--to", "b1") == ["a2", "b/2 %", "b1"]
    assert len(scanned("--limit", "3")) == 3
    assert sorted(scanned("--partitions", "0,1") + scanned("--partitions", "2,3")) == sorted(ROWS)
    assert scanned("--prefix", "zz") == []
    forwards = terminal.json("scan", "words", "--partitions", "0")
    assert terminal.json("scan", "words", "--partitions", "0", "--descending") == forwards[::-1]


def test_a_sorted_scan_is_in_order_over_all_partitions(terminal: Terminal) -> None:
    def scanned(*arguments: str) -> list[str]:
        return [row["key"] for row in terminal.json("scan", "words", "--sorted", *arguments)]

    assert scanned() == sorted(ROWS)
    assert scanned("--descending") == sorted(ROWS, reverse=True)
    assert scanned("--limit", "3") == sorted(ROWS)[:3]
    assert scanned("--from", "a2", "--to", "b1", "--limit", "2") == ["a2", "b/2 %"]
    assert scanned("--prefix", "a") == ["a1", "a2"]
    some = terminal.json("scan", "words", "--partitions", "1,3")
    assert scanned("--partitions", "1,3") == sorted(row["key"] for row in some)
    refused = terminal.refused(2, "scan", "words", "--sorted", "--index", "by-value")
    assert "--sorted is by key: it goes without --index" in refused


def test_a_scan_that_finds_nothing_is_no_failure(terminal: Terminal) -> None:
    done = terminal.run("scan", "words", "--prefix", "zz")
    assert (done.code, done.out.split()) == (0, ["KEY", "VALUE"])
    assert terminal.run("scan", "words", "--prefix", "zz", "-o", "ndjson").out == ""


async def test_a_scan_without_a_limit_tells_of_more_rows(
    start_cluster: StartCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = await start_cluster(engine="memory")
    terminal = Terminal(cluster.url(), capsys)

    async def scanned(*arguments: str) -> tuple[int, str]:
        done = await asyncio.to_thread(terminal.run, "scan", "words", "-o", "ndjson", *arguments)
        assert done.code == 0
        return len(done.out.splitlines()), done.err

    await cluster.put_values({f"{number:04}": number for number in range(ROWS_SHOWN)})
    assert await scanned() == (ROWS_SHOWN, "")
    await cluster.put_values({"one more": 1})
    note = f"these are the first {ROWS_SHOWN} rows: say --limit N for more\n"
    assert await scanned() == (ROWS_SHOWN, note)
    assert await scanned("--limit", str(ROWS_SHOWN)) == (ROWS_SHOWN, "")
