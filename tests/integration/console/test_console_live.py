"""Live tells what happened to rows, and nothing else."""

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Route, expect

from qss_core.model import Partitioner, StoreType
from qss_core.partitioning import partition_of
from qss_testing.clients.terminal import Terminal
from qss_testing.console.browser import opened
from qss_testing.pods.pod_process import PodCluster
from qss_testing.pods.stores import Put, slice_of
from qss_testing.writers.writer import Record, Writer

pytestmark = pytest.mark.long

KEYS = [f"k{number}" for number in range(8)]  # Both partitions have some of them.
ROWS_MAX = 100  # Of the page.
HOUR_MS = 3_600_000


def test_rows_of_a_partition_that_gives_no_answer_are_not_called_gone(
    browser: Browser, tmp_path: Path
) -> None:
    with PodCluster(tmp_path, pods=2, partitions=2) as cluster:
        with Writer(cluster.url, cluster.store) as job:
            job.write([Record(key, 1) for key in KEYS])
        with opened(browser, f"{cluster.url}/console/#/live?mode=prefix&of=k") as watched:
            page = watched.page
            rows = page.get_by_role("region", name="Rows", exact=True).locator("tbody tr")
            expect(rows).to_have_count(len(KEYS))
            cluster.pods[1].kill()
            alert = page.get_by_role("alert").filter(has_text="Partition 1 did not answer")
            expect(alert).to_contain_text("The rows are those of before")
            expect(rows).to_have_count(len(KEYS))
            cluster.pods[1].start()
            cluster.assign(cluster.pods[1])
            expect(alert).to_have_count(0)
            expect(rows).to_have_count(len(KEYS))
            expect(page.locator(".events li")).to_have_count(0)
            watched.check()


def test_a_row_that_leaves_the_page_is_not_called_gone(browser: Browser, tmp_path: Path) -> None:
    with (
        PodCluster(tmp_path, partitions=1) as cluster,
        Writer(cluster.url, cluster.store) as job,
    ):
        job.write([Record(f"k{number:03}", 1) for number in range(1, ROWS_MAX + 1)])
        with opened(browser, f"{cluster.url}/console/#/live?mode=prefix&of=k") as watched:
            page = watched.page
            events = page.locator(".events li")
            expect(page.get_by_role("region", name="Rows", exact=True)).to_contain_text("k100")
            job.write([Record("k000", 1)])
            expect(page.get_by_text("The first 100 rows; more are there")).to_be_visible()
            assert [one.split(" ", 1)[1] for one in events.all_inner_texts()] == [
                "k000: new, 1",
                "k100: behind the first 100 rows now",
            ]
            job.write([Record("k000", None), Record("k050", None)])
            expect(events.filter(has_text="k000: gone")).to_be_visible()
            expect(events.filter(has_text="k050: gone")).to_be_visible()
            expect(events.filter(has_text="k100: among the first rows now, 1")).to_be_visible()
            expect(events).to_have_count(5)
            watched.check()


def test_keys_that_an_address_cannot_have_are_told(browser: Browser, tmp_path: Path) -> None:
    given: dict[str, Any] = {"type": StoreType.VERSIONED, "history_retention_ms": HOUR_MS}
    with PodCluster(tmp_path, partitions=1, format="Plain", **given) as cluster:
        for question in ("live?mode=key&of=..", "ask?kind=versions&key=."):
            with opened(browser, f"{cluster.url}/console/#/{question}") as watched:
                alert = watched.page.get_by_role("alert").first
                expect(alert).to_contain_text("is a folder in an address")
                expect(alert).to_contain_text("Any query (IQv2)")
                watched.check()


def test_a_version_that_ends_is_not_called_written_again(browser: Browser, tmp_path: Path) -> None:
    given: dict[str, Any] = {"type": StoreType.VERSIONED, "history_retention_ms": HOUR_MS}
    with (
        PodCluster(tmp_path, partitions=1, format="Plain", **given) as cluster,
        Writer(cluster.url, cluster.store) as job,
    ):

        def put(value: bytes | None, valid_from_ms: int) -> None:
            puts = [Put(b"a", value, valid_from_ms)]
            job.write_slices([slice_of(cluster.assignment.definition, 0, puts)])

        put(b"1", 1000)
        with opened(browser, f"{cluster.url}/console/#/live?mode=key&of=a") as watched:
            page = watched.page
            expect(page.get_by_role("region", name="Rows", exact=True)).to_contain_text(
                "1970-01-01T00:00:01Z"
            )
            put(b"2", 2000)
            events = page.locator(".events li")
            expect(events.first).to_contain_text("a at 1970-01-01T00:00:02Z: new, 2")
            expect(events.last).to_contain_text(
                "a at 1970-01-01T00:00:01Z: valid until 1970-01-01T00:00:02Z"
            )
            expect(events).to_have_count(2)
            expect(page.get_by_text("Now: 2 since 1970-01-01T00:00:02Z")).to_be_visible()
            # The open version reaches beyond the ended one.
            expect(page.locator(".span rect")).to_have_count(2)
            expect(page.locator(".span.open rect")).to_have_count(1)
            put(None, 3000)
            told = "No value now; the last one: 2 from 1970-01-01T00:00:02Z until"
            expect(page.get_by_text(told)).to_be_visible()
            expect(events.first).to_contain_text("valid until 1970-01-01T00:00:03Z")
            watched.check()


WINDOWS: dict[str, Any] = {"type": StoreType.WINDOW, "window_size_ms": 1000}
SESSIONS: dict[str, Any] = {"type": StoreType.SESSION, "session_gap_ms": 1000, "format": "Plain"}
# Of each type: how its newest row is told, and what follows the start of a row in its line.
SPANS = [
    (WINDOWS, "from 1970-01-01T00:00:02Z to 1970-01-01T00:00:03Z", ""),
    (
        SESSIONS,
        "from 1970-01-01T00:00:02Z to 1970-01-01T00:00:02.500Z",
        " to 1970-01-01T00:00:0{}.500Z",
    ),
]


@pytest.mark.parametrize(("given", "span", "end"), SPANS)
def test_each_window_and_session_of_a_key_is_followed(
    browser: Browser, tmp_path: Path, given: dict[str, Any], span: str, end: str
) -> None:
    with (
        PodCluster(tmp_path, partitions=1, retention_ms=HOUR_MS, **given) as cluster,
        Writer(cluster.url, cluster.store) as job,
    ):

        def put(key: bytes, value: bytes | None, start: int) -> None:
            puts = [Put(key, value, 1, start=start, end=start + 500)]
            job.write_slices([slice_of(cluster.assignment.definition, 0, puts)])

        put(b"a", b"1", 1000)
        with opened(browser, f"{cluster.url}/console/#/live?mode=key&of=a") as watched:
            page = watched.page
            rows = page.get_by_role("region", name="Rows", exact=True).locator("tbody tr")
            bars = page.locator(".span rect")
            events = page.locator(".events li")
            expect(rows).to_have_count(1)
            put(b"else", b"7", 1000)
            put(b"a", b"2", 2000)
            expect(page.get_by_text(f"The newest: 2 {span}")).to_be_visible()
            expect(events.first).to_contain_text(
                f"a at 1970-01-01T00:00:02Z{end.format(2)}: new, 2"
            )
            expect(bars).to_have_count(2)
            put(b"a", b"3", 1000)
            expect(events.first).to_contain_text(f"a at 1970-01-01T00:00:01Z{end.format(1)}: 1 → 3")
            expect(rows.nth(1)).to_contain_text("3")
            put(b"a", None, 2000)
            expect(events.first).to_contain_text(f"a at 1970-01-01T00:00:02Z{end.format(2)}: gone")
            expect(events).to_have_count(3)
            expect(bars).to_have_count(1)
            watched.check()


def test_the_newest_sessions_are_followed_where_a_key_has_many(
    browser: Browser, tmp_path: Path
) -> None:
    with (
        PodCluster(tmp_path, partitions=1, retention_ms=HOUR_MS, **SESSIONS) as cluster,
        Writer(cluster.url, cluster.store) as job,
    ):

        def put(numbers: range) -> None:
            puts = [Put(b"a", b"1", 1, start=1000 * n, end=1000 * n + 500) for n in numbers]
            job.write_slices([slice_of(cluster.assignment.definition, 0, puts)])

        put(range(1, ROWS_MAX + 1))
        with opened(browser, f"{cluster.url}/console/#/live?mode=key&of=a") as watched:
            page = watched.page
            rows = page.get_by_role("region", name="Rows", exact=True).locator("tbody tr")
            expect(rows.first).to_contain_text("1970-01-01T00:01:40Z")
            put(range(ROWS_MAX + 1, ROWS_MAX + 2))
            expect(rows.first).to_contain_text("1970-01-01T00:01:41Z")
            expect(page.get_by_text("The newest 100 rows; more are there")).to_be_visible()
            watched.check()


def test_rows_of_a_standby_that_is_behind_are_asked_again(browser: Browser, tmp_path: Path) -> None:
    """The status tells a batch that the standby, whose rows the pod reads, has not applied yet."""
    with (
        PodCluster(tmp_path, partitions=1) as cluster,
        Writer(cluster.url, cluster.store) as job,
        opened(browser, f"{cluster.url}/console/#/overview") as watched,
    ):
        job.write([Record("k1", 1)])
        page = watched.page
        old: list[str] = []

        def answer(route: Route) -> None:
            if len(old) == 1:
                route.fulfill(body=old[0], content_type="application/json")
            else:
                response = route.fetch()
                route.fulfill(response=response)
            old.append("" if old else response.text())

        page.route("**/state/stores/*?prefix=**", answer)
        page.goto(f"{cluster.url}/console/#/live?mode=prefix&of=k")
        rows = page.get_by_role("region", name="Rows", exact=True).locator("tbody tr")
        expect(rows).to_have_count(1)
        job.write([Record("k2", 2)])
        expect(rows).to_have_count(2)
        assert len(old) == 3
        watched.check()


def test_keys_that_no_address_can_have_are_followed(browser: Browser, tmp_path: Path) -> None:
    with (
        PodCluster(tmp_path, partitions=1) as cluster,
        Writer(cluster.url, cluster.store) as job,
        opened(browser, f"{cluster.url}/console/#/live") as watched,
    ):
        page = watched.page
        events = page.locator(".events li")
        for number, key in enumerate(("..", "k" * 3000, "")):
            job.write([Record(key, 1)])
            page.goto(f"{cluster.url}/console/#/live?mode=key&of={key.replace('.', '%2E')}")
            rows = page.get_by_role("region", name="Rows", exact=True).locator("tbody tr")
            expect(rows).to_have_count(1)
            job.write([Record(key, 10 + number)])
            expect(events).to_have_count(1)
            expect(events).to_contain_text(f": 1 → {10 + number}")
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
            job.write([Record(key, None)])
            expect(page.get_by_text("Nothing is there now.")).to_be_visible()
        page.get_by_role("combobox", name="Follow").select_option("prefix")
        page.get_by_role("textbox", name="Prefix").fill("")
        page.get_by_role("button", name="Follow").click()
        expect(page.get_by_text("The first rows of the store")).to_be_visible()
        job.write([Record("any", 1)])
        expect(events).to_contain_text("any: new, 1")
        watched.check()


def test_a_sentence_about_a_large_value_is_short(browser: Browser, tmp_path: Path) -> None:
    with (
        PodCluster(tmp_path, partitions=1) as cluster,
        Writer(cluster.url, cluster.store) as job,
    ):
        job.write([Record("k\n1", "x" * 100_000)])
        with opened(browser, f"{cluster.url}/console/#/live?mode=prefix&of=k") as watched:
            page = watched.page
            expect(page.get_by_role("region", name="Rows", exact=True)).to_contain_text("xxx")
            job.write([Record("k\n1", "y" * 100_000)])
            event = page.locator(".events li")
            expect(event).to_contain_text("yyy")
            expect(event).to_contain_text("k↵1: ")
            length = len(event.inner_text())
            assert length < 500
            watched.check()


def test_duplicates_of_a_window_are_told_apart(browser: Browser, tmp_path: Path) -> None:
    given: dict[str, Any] = {**WINDOWS, "retain_duplicates": True}
    with (
        PodCluster(tmp_path, partitions=1, retention_ms=HOUR_MS, **given) as cluster,
        Writer(cluster.url, cluster.store) as job,
    ):

        def put(key: bytes, value: bytes, start: int) -> None:
            puts = [Put(key, value, 1, start=start)]
            job.write_slices([slice_of(cluster.assignment.definition, 0, puts)])

        put(b"a", b"1", 1000)
        with opened(browser, f"{cluster.url}/console/#/live?mode=key&of=a") as watched:
            page = watched.page
            expect(page.get_by_text("The newest: 1 ")).to_be_visible()
            put(b"a", b"2", 1000)
            events = page.locator(".events li")
            expect(events).to_contain_text("a at 1970-01-01T00:00:01Z, sequence ")
            put(b"else", b"1", 3 * HOUR_MS)  # Retention ends both.
            expect(events).to_have_count(3)
            told = [one.split(" ", 1)[1] for one in events.all_inner_texts()]
            assert len(set(told)) == 3
            watched.check()


def test_windows_of_keys_that_no_path_can_have_are_shown(browser: Browser, tmp_path: Path) -> None:
    with (
        PodCluster(tmp_path, partitions=2, retention_ms=HOUR_MS, **WINDOWS) as cluster,
        Writer(cluster.url, cluster.store) as job,
    ):
        keys = ("..", "k" * 3000)

        def put(value: bytes, start: int) -> None:
            puts = [Put(key.encode(), value, 1, start=start) for key in keys]
            numbers = [partition_of(put.key, 2) for put in puts]
            definition = cluster.assignment.definition
            job.write_slices(
                [
                    slice_of(
                        definition,
                        one,
                        [put for put, at in zip(puts, numbers, strict=True) if at == one],
                    )
                    for one in sorted(set(numbers))
                ]
            )

        put(b"1", 1000)
        put(b"2", 2000)
        for key in keys:
            shown = key.replace(".", "%2E")
            with opened(browser, f"{cluster.url}/console/#/live?mode=key&of={shown}") as watched:
                page = watched.page
                rows = page.get_by_role("region", name="Rows", exact=True).locator("tbody tr")
                expect(page.get_by_text("The newest: 2 from 1970-01-01T00:00:02Z")).to_be_visible()
                page.goto(
                    f"{cluster.url}/console/#/ask?kind=windowsOf&key={shown}&order=DESCENDING"
                )
                expect(rows).to_have_count(2)
                expect(rows.first).to_contain_text("1970-01-01T00:00:02Z")
                watched.check()


def test_a_key_is_followed_in_the_partition_that_its_writer_chose(
    browser: Browser, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with (
        PodCluster(tmp_path, partitions=2, partitioner=Partitioner.EXPLICIT) as cluster,
        Writer(cluster.url, cluster.store) as job,
        opened(browser, f"{cluster.url}/console/#/live") as watched,
    ):
        job.write([Record("a", 1, 1000, partition=0), Record("a", 2, 1000, partition=1)])
        page = watched.page
        page.get_by_role("textbox", name="Key").fill("a")
        page.get_by_role("spinbutton", name="Partition").fill("1")
        page.get_by_role("button", name="Follow").click()
        rows = page.get_by_role("region", name="Rows", exact=True).locator("tbody tr")
        expect(rows).to_contain_text("a2")
        assert page.url.endswith("#/live?mode=key&of=a&partition=1")
        job.write([Record("a", 3, 1000, partition=1)])
        expect(page.locator(".events li")).to_contain_text("a: 2 → 3")
        watched.check()
        terminal = Terminal(cluster.url, capsys)
        for command in (("get",), ("watch", "--limit", "1")):
            done = terminal.run(command[0], "words", "a", "--partition", "0", *command[1:])
            assert (done.code, done.err) == (0, "")
            assert done.out.split()[-2:] == ["1", "1970-01-01T00:00:01Z"]
        assert "--partition 0" in terminal.refused(2, "get", "words", "a")
