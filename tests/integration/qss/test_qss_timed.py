"""`qss windows` and `qss sessions`: output and exit codes."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from qss_client.cli.printing import ROWS_SHOWN
from qss_core.model import Partitioner
from qss_store.runtime.settings import Settings
from qss_testing.clients.qss_command import Finished
from qss_testing.clients.terminal import Terminal
from qss_testing.pods.stores import Cluster, Put
from qss_testing.pods.timed_stores import SESSION, WINDOW, StartCluster

Run = Callable[..., Awaitable[Finished]]
NEW_YEAR_MS = 1_356_998_400_000
ASK = ("--limit", "6", "-o", "json")


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs a command against a store of this process."""

    async def run(cluster: Cluster, command: str, *arguments: str) -> Finished:
        terminal = Terminal(cluster.url(), capsys)
        return await asyncio.to_thread(terminal.run, command, "words", *arguments)

    return run


async def windows(start_cluster: StartCluster, **members: Any) -> Cluster:
    cluster = await start_cluster(2, engine="memory", **WINDOW, **members)
    puts = [
        Put(key, b'{"n":%d}' % number, NEW_YEAR_MS, (("h", b"x"),), NEW_YEAR_MS + 1000 * number)
        for key in (b"EWR", b"JFK")
        for number in range(3)
    ]
    await cluster.put(puts)
    return cluster


async def sessions(start_cluster: StartCluster) -> Cluster:
    cluster = await start_cluster(2, engine="memory", **SESSION)
    puts = [Put(b"N1", b"1", start=0, end=500), Put(b"N2", b"2", start=1000, end=1001)]
    await cluster.put(puts)
    return cluster


def read(done: Finished) -> Any:
    assert (done.code, done.err) == (0, ""), done.err
    return json.loads(done.out)


async def test_a_key_is_read_in_the_partition_that_its_writer_chose(
    start_cluster: StartCluster, run: Run
) -> None:
    cluster = await start_cluster(2, engine="memory", partitioner=Partitioner.EXPLICIT, **SESSION)
    await cluster.put_into({3: [Put(b"N1", b"1", start=0, end=500)]})
    for partition, count in (("3", 1), ("2", 0)):
        done = await run(cluster, "sessions", "N1", "--partition", partition, *ASK)
        assert len(read(done)) == count
    refused = await run(cluster, "sessions", "--partition", "3")
    assert refused.code == 2
    assert "for all keys take --partitions" in refused.err


async def test_watch_tells_duplicates_apart(start_cluster: StartCluster, run: Run) -> None:
    cluster = await start_cluster(2, engine="memory", **WINDOW, retain_duplicates=True)
    await cluster.put([Put(b"EWR", b"%d" % number, 0, start=0) for number in range(2)])
    done = await run(cluster, "watch", "EWR", "--limit", "2")
    assert (done.code, done.err) == (0, "")
    found = [tuple(line.split("  ")[3:5]) for line in done.out.splitlines()]
    assert [value for _, value in found] == ["0", "1"]
    assert len({sequence for sequence, _ in found}) == 2


async def test_a_table_shows_times_that_people_read(
    start_cluster: StartCluster, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    cluster = await windows(start_cluster)
    done = await run(cluster, "windows", "JFK", "--to", "2013-01-01T00:00:00Z")
    heading, row = (line.split("  ") for line in done.out.splitlines())
    words = [word.strip() for word in heading if word.strip()]
    assert words == ["KEY", "WINDOW START", "WINDOW END", "VALUE", "TIMESTAMP"]
    cells = [cell.strip() for cell in row if cell.strip()]
    assert cells == [
        "JFK",
        "2013-01-01T00:00:00Z",
        "2013-01-01T00:00:01Z",
        '{"n":0}',
        "2013-01-01T00:00:00Z",
    ]
    millis = await run(cluster, "windows", "JFK", "--limit", "1", "--times", "millis")
    assert str(NEW_YEAR_MS) in millis.out


async def test_json_shows_milliseconds_unless_told_otherwise(
    start_cluster: StartCluster, run: Run
) -> None:
    cluster = await windows(start_cluster, format="TimestampedWithHeaders")
    (row,) = read(await run(cluster, "windows", "EWR", "--limit", "1", "-o", "json"))
    assert row == {
        "key": "EWR",
        "windowStart": NEW_YEAR_MS,
        "windowEnd": NEW_YEAR_MS + 1000,
        "value": {"n": 0},
        "timestamp": NEW_YEAR_MS,
        "headers": [{"key": "h", "value": "eA=="}],
    }
    lines = await run(cluster, "windows", "--times", "rfc3339", "-o", "ndjson", "--limit", "2")
    shown = [json.loads(line) for line in lines.out.splitlines()]
    assert [row["windowStart"] for row in shown] == [
        "2013-01-01T00:00:00Z",
        "2013-01-01T00:00:01Z",
    ]


async def test_windows_are_chosen_and_ordered(start_cluster: StartCluster, run: Run) -> None:
    cluster = await windows(start_cluster)

    async def found(*arguments: str) -> list[tuple[str, int]]:
        rows = read(await run(cluster, "windows", *arguments, "-o", "json"))
        return [(row["key"], row["value"]["n"]) for row in rows]

    backward = [("JFK", 2), ("JFK", 1), ("JFK", 0)]
    assert await found("JFK", "--order", "DESCENDING") == backward
    assert await found("JFK", "--descending") == backward
    assert await found("JFK", "--descending", "--order", "DESCENDING") == backward
    assert await found("JFK", "--from", str(NEW_YEAR_MS + 1000), "--limit", "1") == [("JFK", 1)]
    assert await found("--key-to", "EWR", "--limit", "2") == [("EWR", 0), ("EWR", 1)]
    assert await found("--key-from", "F", "--to", "2013-01-01T00:00:00Z") == [("JFK", 0)]
    by_time = await found("--order-by", "time", "--limit", "3")
    assert by_time == [("EWR", 0), ("JFK", 0), ("EWR", 1)]


async def test_sessions_are_chosen_and_printed(
    start_cluster: StartCluster, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    cluster = await sessions(start_cluster)
    (row,) = read(await run(cluster, "sessions", "N1", "-o", "json"))
    assert row == {"key": "N1", "sessionStart": 0, "sessionEnd": 500, "value": 1}
    late = read(await run(cluster, "sessions", "--end-from", "501", "-o", "json"))
    early = read(await run(cluster, "sessions", "--start-to", "999", "-o", "json"))
    assert [row["key"] for row in (*late, *early)] == ["N2", "N1"]
    table = (await run(cluster, "sessions", "--order-by", "time", "--order", "DESCENDING")).out
    assert "SESSION START" in table
    again = (await run(cluster, "sessions", "--order-by", "time", "--descending")).out
    assert again == table
    assert table.index("N2") < table.index("N1")
    assert "1970-01-01T00:00:01.001Z" in table


async def test_times_are_shown_in_one_piece_and_no_rows_by_their_columns(
    start_cluster: StartCluster, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    cluster = await sessions(start_cluster)
    table = (await run(cluster, "sessions", "N2")).out
    assert "1970-01-01T00:00:01Z" in table
    monkeypatch.setenv("COLUMNS", "80")
    whole = (await run(cluster, "sessions", "N2")).out
    assert sum("Z" in line for line in whole.splitlines()) == 1
    none = (await run(cluster, "sessions", "nobody")).out
    assert none.split() == ["KEY", "SESSION", "START", "SESSION", "END", "VALUE"]


async def test_a_command_without_a_limit_tells_of_more_windows_and_sessions(
    start_cluster: StartCluster, run: Run
) -> None:
    note = f"these are the first {ROWS_SHOWN} rows: say --limit N for more\n"
    for command, cluster in (
        ("windows", await windows(start_cluster)),
        ("sessions", await sessions(start_cluster)),
    ):
        keys = (b"%04d" % number for number in range(ROWS_SHOWN + 1))
        await cluster.put([Put(key, b"1", start=NEW_YEAR_MS, end=NEW_YEAR_MS) for key in keys])
        some = await run(cluster, command, "-o", "ndjson")
        assert (len(some.out.splitlines()), some.err) == (ROWS_SHOWN, note)
        limited = await run(cluster, command, "-o", "ndjson", "--limit", "1")
        assert (len(limited.out.splitlines()), limited.err) == (1, "")


async def test_a_query_whose_answer_is_cut_tells_how_to_go_on(
    start_cluster: StartCluster, run: Run
) -> None:
    cluster = await windows(start_cluster, settings=Settings(answer_bytes_max=200))
    asked = ("query", "WindowRangeQuery", "timeFrom=0", "timeTo=9999999999999", *ASK)
    done = await run(cluster, *asked)
    seen, pages = rows_in(done), 1
    while done.err:
        assert "there are more: say --limit N" in done.err
        done = await run(cluster, *asked, "--cursor", done.err.split()[-1])
        seen, pages = seen + rows_in(done), pages + 1
    assert seen == 6
    assert pages > 1


def rows_in(done: Finished) -> int:
    assert done.out, done.err
    return sum(len(one["result"]) for one in json.loads(done.out))


async def test_a_field_that_is_given_twice_is_refused(
    start_cluster: StartCluster, run: Run
) -> None:
    cluster = await windows(start_cluster)
    done = await run(cluster, "query", "WindowKeyQuery", "key=EWR", "key=JFK")
    assert (done.code, done.out) == (2, "")
    assert "the field key is given twice" in done.err


async def test_a_field_that_is_called_like_an_option_is_a_field(
    start_cluster: StartCluster, run: Run
) -> None:
    cluster = await windows(start_cluster)
    for field in ("times=rfc3339", "limit=3", "partitions=[0]", "cursor=x", "options=1"):
        done = await run(cluster, "query", "WindowRangeQuery", "timeFrom=0", field)
        assert done.code == 2
        assert f"unknown field `{field.split('=')[0]}`" in done.err


async def test_a_range_upside_down_is_told_in_the_words_of_the_command(
    start_cluster: StartCluster, run: Run
) -> None:
    cluster = await windows(start_cluster)
    dates = ("--from", "2024-05-05", "--to", "2024-05-04")
    assert (await run(cluster, "windows", *dates)).err == (
        "error: RANGE_REVERSED: --from 2024-05-05 lies after --to 2024-05-04: --from is the "
        "earlier one; --order says in which order rows are printed\n"
    )
    keys = await run(cluster, "windows", "--key-from", "b", "--key-to", "a", "--from", "1")
    assert keys.err.startswith("error: RANGE_REVERSED: --key-from lies above --key-to, in the ")


async def test_a_command_for_stores_of_another_type_names_the_right_one(
    start_cluster: StartCluster, run: Run
) -> None:
    cluster = await windows(start_cluster)
    instead = "is a Window store: use `qss windows words`\n"
    for command in (("scan",), ("get", "a"), ("sessions",), ("versions", "a")):
        assert (await run(cluster, *command)).err.endswith(instead), command


async def test_a_query_by_name_takes_its_fields(start_cluster: StartCluster, run: Run) -> None:
    cluster = await sessions(start_cluster)
    done = await run(cluster, "query", "SessionQuery", "keyFrom=N2", "endFrom=0", "-o", "json")
    rows = [row for one in read(done) for row in one["result"]]
    assert [row["key"] for row in rows] == ["N2"]
    assert {row["sessionStart"] for row in rows} == {1000}
    named = (*("query", "SessionQuery", "key=N2"), *("-o", "json"))
    shown = read(await run(cluster, *named, "--times", "rfc3339"))
    (row,) = [row for one in shown for row in one["result"]]
    assert row["sessionStart"] == "1970-01-01T00:00:01Z"


@pytest.mark.parametrize(
    ("command", "arguments", "code", "word"),
    [
        ("windows", ("--from", "soon"), 2, "MALFORMED_REQUEST"),
        ("windows", ("--from", "2", "--to", "1"), 2, "RANGE_REVERSED"),
        ("windows", ("a", "--key-from", "b"), 2, "rows of one key"),
        ("windows", ("--order", "UP"), 2, "UP"),
        ("windows", ("--order", "ASCENDING", "--descending"), 2, "not ASCENDING"),
        ("windows", ("--limit", "0"), 2, "--limit"),
        ("windows", ("--partitions", "x"), 2, "partitions"),
        ("sessions", (), 2, "UNKNOWN_QUERY_TYPE"),
    ],
)
async def test_what_cannot_be_asked_ends_with_its_reason(
    start_cluster: StartCluster,
    run: Run,
    command: str,
    arguments: tuple[str, ...],
    code: int,
    word: str,
) -> None:
    cluster = await windows(start_cluster)
    done = await run(cluster, command, *arguments)
    assert done.code == code
    assert word in done.err
    assert done.out == ""
