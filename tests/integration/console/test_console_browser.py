"""The console in a real Chromium: what a person sees and does."""

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from playwright.sync_api import Browser, Page, expect

from qss_client.cli.main import main
from qss_client.http.sync_http import SyncHttp
from qss_core.model import Epoch, Ordinal, StoreType
from qss_testing.clients.terminal import Program
from qss_testing.console.browser import opened
from qss_testing.fakes.reviewer import Reviewer, make_token
from qss_testing.pods.extension_package import install_guide
from qss_testing.pods.guarded import READER, STRANGER, guarded, rights
from qss_testing.pods.own_store_pods import running
from qss_testing.pods.pod_process import PodCluster
from qss_testing.pods.stores import Put, slice_of
from qss_testing.writers.writer import Record, Writer

pytestmark = pytest.mark.long

KEYS = [f"k{number:02}" for number in range(30)]
VIEWS = {"overview": "Overview", "partitions": "Partitions", "ask": "Ask", "live": "Live"}
WIDTHS = (360, 1280, 2560)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PodCluster]:
    """Two pods, each with all partitions as an active or a standby."""
    with PodCluster(
        tmp_path_factory.mktemp("pods"), pods=2, standbys=1, partitions=4, store="words"
    ) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def job(cluster: PodCluster) -> Iterator[Writer]:
    with Writer(cluster.url, cluster.store, "job") as job:
        rows = [Record(key, {"n": number, "at": "Oslo"}, 1000) for number, key in enumerate(KEYS)]
        job.write(rows, position={"in": {"0": 41}})
        yield job


def at(cluster: PodCluster, view: str) -> str:
    return f"{cluster.url}/console/#/{view}"


def test_the_overview_shows_the_store_and_batches_as_they_come(
    browser: Browser, cluster: PodCluster, job: Writer
) -> None:
    with opened(browser, at(cluster, "overview")) as watched:
        page = watched.page
        expect(page.get_by_role("heading", name="Status: Serving", exact=True)).to_be_visible()
        expect(page.get_by_role("region", name="Table of positions")).to_contain_text("0: 41")
        expect(page.get_by_role("region", name="Table of writers")).to_contain_text("job")
        facts = page.locator("section", has=page.get_by_role("heading", name="Store"))
        for text in ("KeyValue", "Timestamped", "4, Murmur2"):
            expect(facts).to_contain_text(text)
        expect(page.locator(".curve canvas")).to_be_visible()
        batches = page.get_by_role("region", name="The newest batches").locator("tbody tr")
        before = batches.count()
        job.write([Record("later", 1)])
        expect(batches).to_have_count(before + 1)
        expect(batches.first).to_contain_text("job")
        watched.check()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_view_fits_into_every_width_and_works_by_keyboard(
    browser: Browser, cluster: PodCluster, job: Writer, scheme: Any
) -> None:
    with opened(browser, at(cluster, "overview"), color_scheme=scheme) as watched:
        page = watched.page
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 800})
            for view, title in VIEWS.items():
                page.get_by_role("link", name=title, exact=True).focus()
                page.keyboard.press("Enter")
                expect(page.get_by_role("heading", name=title, level=1)).to_be_visible()
                assert page.url.endswith(f"#/{view}")
                assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
                current = page.locator("nav [aria-current=page]")
                expect(current).to_have_text(title)
        dark = page.evaluate("matchMedia('(prefers-color-scheme: dark)').matches")
        background = page.evaluate("getComputedStyle(document.body).backgroundColor")
        shade = sum(map(int, re.findall(r"\d+", background)))
        assert dark == (scheme == "dark") == (shade < 200)
        assert page.evaluate(UNNAMED) == []
        watched.check()


# Controls without a name for a screen reader.
UNNAMED = """[...document.querySelectorAll('button, a, input, select, textarea, [role=img]')]
  .filter(one => !(one.textContent.trim() || one.getAttribute('aria-label') || one.labels?.length))
  .map(one => one.outerHTML)"""


def test_a_failover_is_seen_on_the_partition_map(browser: Browser, tmp_path: Path) -> None:
    with (
        PodCluster(tmp_path, pods=2, standbys=1, partitions=2) as cluster,
        opened(browser, at(cluster, "partitions")) as watched,
    ):
        page = watched.page
        cell = page.get_by_role("button", name="partition 1, standby, epoch 1, serving")
        expect(cell).to_be_visible()
        cell.focus()
        page.keyboard.press("Enter")
        expect(page.get_by_role("dialog")).to_contain_text("Partition 1 on words-0")
        page.keyboard.press("Escape")
        expect(page.get_by_role("dialog")).to_have_count(0)
        changes = page.locator(".events")
        cluster.pods[1].kill()
        expect(page.locator(".pod.gone")).to_contain_text("words-1")
        expect(changes).to_contain_text("pod words-1 does not answer")
        # It comes back before a standby takes over.
        cluster.pods[1].start()
        cluster.assignment = in_epoch(cluster, Epoch(2))
        for pod in cluster.pods:
            cluster.assign(pod)
        expect(changes).to_contain_text("partition 1: words-1 is active in epoch 2")
        cluster.pods[1].kill()
        alone = (Ordinal(0),)
        cluster.assignment = in_epoch(
            cluster, Epoch(3), active=Ordinal(0), in_sync=alone, replicas=alone
        )
        cluster.assign(cluster.pods[0])
        expect(page.get_by_role("button", name="partition 1, active, epoch 3")).to_be_visible()
        expect(changes).to_contain_text("partition 1: words-0 is active now (epoch 3)")
        page.goto(at(cluster, "overview"))
        expect(page.locator(".checks")).to_contain_text("pod words-1 did not answer")
        cluster.pods[0].kill()
        expect(page.get_by_role("alert")).to_contain_text("does not answer. It may be starting")
        expect(page.get_by_role("link", name="words-1")).to_be_visible()
        watched.check()


def in_epoch(cluster: PodCluster, epoch: Epoch, **changed: Any) -> Any:
    """The assignment with a later epoch, and other changes of its configurations."""
    partitions = cluster.assignment.partitions
    newer = [msgspec.structs.replace(one, epoch=epoch, **changed) for one in partitions]
    return msgspec.structs.replace(cluster.assignment, partitions=tuple(newer))


# --- Ask

ROWS = {"get": 1, "many": 2, "range": 10, "prefix": 10, "count": 1, "query": 3}
FILLED = {
    "get": {"key": "k07"},
    "many": {"keys": "k01\nk02"},
    "range": {"from": "k00", "to": "k29", "limit": "10"},
    "prefix": {"prefix": "k1", "limit": "100"},
    "count": {},
    "query": {"member.lower": "k05", "member.upper": "k07"},
}


def answered(page: Page) -> None:
    expect(page.get_by_role("tab", name="Table")).to_be_visible()


@pytest.mark.parametrize("kind", FILLED)
def test_a_question_is_asked_copied_and_opened_again(
    browser: Browser,
    cluster: PodCluster,
    job: Writer,
    kind: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with opened(browser, at(cluster, f"ask?kind={kind}")) as watched:
        page = watched.page
        if kind == "query":
            page.locator("[name=type]").select_option("RangeQuery")
            expect(page.locator('[name="member.order"]')).to_have_value("ANY")
        for name, text in FILLED[kind].items():
            page.locator(f'[name="{name}"]').fill(text)
        page.get_by_role("button", name="Ask", exact=True).click()
        answered(page)
        rows = page.get_by_role("region", name="Rows").locator("tbody tr")
        expect(rows).to_have_count(ROWS[kind])
        shown = rows.all_inner_texts()
        page.get_by_role("tab", name="JSON").click()
        document = json.loads(page.get_by_role("tabpanel").inner_text())
        if kind != "many":
            page.get_by_role("tab", name="How it was answered").click()
            expect(page.locator(".waterfall").first).to_contain_text(
                " rows scanned" if kind != "count" else "count"
            )
            page.get_by_role("tab", name="Partitions").click()
            expect(page.get_by_role("region", name="Partitions of the answer")).to_contain_text(
                re.compile("words-[01]")
            )
        curl, command, program = page.locator(".snippet pre").all_inner_texts()
        same = without_times(by_curl(curl))
        assert same == without_times(document)
        assert Program(main, capsys).run(*shlex.split(command)[1:]).code == 0
        exec(program, {})  # What the page gives to copy has to run.
        assert capsys.readouterr().out
        page.reload()
        answered(page)
        expect(rows).to_have_count(ROWS[kind])
        assert rows.all_inner_texts() == shown
        watched.check()


def by_curl(command: str) -> Any:
    """The answer to the request that a command of curl sends."""
    _, _, url, *rest = shlex.split(command)
    body = rest[rest.index("-d") + 1].encode() if "-d" in rest else None
    http = SyncHttp()
    try:
        method = "GET" if body is None else "POST"
        headers = {"Content-Type": "application/json"}
        return json.loads(http.request(method, url, body=body, headers=headers).body)
    finally:
        http.close()


def without_times(document: Any) -> Any:
    """The answer without how it was answered, and by which replica."""
    text = json.dumps(document, sort_keys=True)
    text = re.sub(r'"executionInfo": \[[^]]*\]', "", text)
    return re.sub(r'"(role|servedBy)": "[^"]*"', "", text)


def test_pages_go_on_by_cursor_and_refusals_are_sentences(
    browser: Browser, cluster: PodCluster, job: Writer
) -> None:
    with opened(browser, at(cluster, "ask?kind=prefix&prefix=k&limit=12")) as watched:
        page = watched.page
        rows = page.get_by_role("region", name="Rows").locator("tbody tr")
        expect(rows).to_have_count(12)
        first = rows.all_inner_texts()
        page.get_by_role("button", name="Next page").click()
        expect(page.get_by_text("page 2")).to_be_visible()
        page.get_by_role("button", name="Next page").click()
        expect(rows).to_have_count(6)
        expect(page.get_by_role("button", name="Next page")).to_be_disabled()
        page.get_by_role("button", name="Page before").click()
        page.get_by_role("button", name="Page before").click()
        assert rows.all_inner_texts() == first
        page.route(
            re.compile("cursor="),
            lambda route: route.continue_(
                url=re.sub("cursor=[^&]*", "cursor=AAAA", route.request.url)
            ),
        )
        page.get_by_role("button", name="Next page").click()
        alert = page.get_by_role("alert")
        expect(alert).to_contain_text("the cursor is not valid any more")
        page.goto(at(cluster, "ask?kind=get&key=nobody"))
        expect(alert).to_contain_text("The key is not in the store")
        watched.check()


# --- Live


@pytest.mark.parametrize(("mode", "of"), [("key", "live1"), ("prefix", "live")])
def test_a_followed_row_changes_on_the_page(
    browser: Browser, cluster: PodCluster, job: Writer, mode: str, of: str
) -> None:
    job.write([Record("live1", {"n": 1}, 1000)])
    with opened(browser, at(cluster, "live")) as watched:
        page = watched.page
        page.locator("[name=mode]").select_option(mode)
        page.locator("[name=of]").fill(of)
        page.keyboard.press("Enter")
        row = page.get_by_role("region", name="Rows").locator("tbody tr")
        expect(row).to_contain_text("1")
        job.write([Record("live1", {"n": 234}, 2000)])
        expect(row).to_contain_text("234")
        expect(row).to_have_class(re.compile("flash"))
        expect(page.locator(".events")).to_contain_text('live1: {"n":1} → {"n":234}')
        job.write([Record("live1", None, 3000)])
        expect(page.locator(".events")).to_contain_text("live1: gone")
        watched.check()


# --- Rights


def test_a_token_is_asked_for_and_kept_in_memory_alone(browser: Browser, tmp_path: Path) -> None:
    with (
        Reviewer(rights()) as reviewer,
        guarded(tmp_path, reviewer) as cluster,
        opened(browser, at(cluster, "overview")) as watched,
    ):
        page = watched.page
        alert = page.get_by_role("alert")
        expect(alert).to_contain_text("This store asks for a token")
        for token, sentence in (
            ("nonsense", "The store does not accept this token"),
            (make_token(STRANGER), "This caller may not ask that"),
        ):
            page.get_by_label("Token").fill(token)
            page.keyboard.press("Enter")
            expect(alert).to_contain_text(sentence)
            if "may not" in sentence:
                page.reload()  # The page has forgotten the token.
                expect(alert).to_contain_text("This store asks for a token")
        token = make_token(READER)
        page.get_by_label("Token").fill(token)
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", name="Status: Serving", exact=True)).to_be_visible()
        kept = page.evaluate("[location.href, document.cookie, localStorage.length]")
        assert kept[1:] == ["", 0]
        assert token not in kept[0]
        assert page.evaluate("sessionStorage.length") == 0
        page.goto(at(cluster, "ask?kind=get&key=none"))
        assert token not in page.content()
        watched.check()


# --- Times and indexes

HOUR_MS = 3_600_000
WINDOWS = {"type": "Window", "window_size_ms": 1000, "retention_ms": HOUR_MS}
SESSIONS = {"type": "Session", "session_gap_ms": 1000, "retention_ms": HOUR_MS, "format": "Plain"}
VERSIONS = {"type": "Versioned", "history_retention_ms": HOUR_MS, "format": "Plain"}
TIMED: list[tuple[dict[str, Any], str, list[Put]]] = [
    (
        WINDOWS,
        "windowsOf&key=a",
        [Put(b"a", b'{"n":1}', 1, start=start) for start in (0, 1000, 2000)],
    ),
    (SESSIONS, "sessions", [Put(key, b"1", start=0, end=500) for key in (b"a", b"b")]),
    (VERSIONS, "versions&key=a", [Put(b"a", b"%d" % time, time) for time in (1000, 2000)]),
]


@pytest.mark.parametrize(("members", "question", "puts"), TIMED)
def test_rows_with_times_are_bars_on_an_axis(
    browser: Browser, tmp_path: Path, members: dict[str, Any], question: str, puts: list[Put]
) -> None:
    given = {**members, "type": StoreType(members["type"])}
    with PodCluster(tmp_path, partitions=1, **given) as cluster:
        with Writer(cluster.url, cluster.store) as job:
            job.write_slices([slice_of(cluster.assignment.definition, 0, puts)])
        with opened(browser, at(cluster, f"ask?kind={question}&limit=100")) as watched:
            page = watched.page
            table = page.get_by_role("region", name="Rows")
            expect(table.locator("tbody tr")).to_have_count(len(puts))
            expect(table).to_contain_text("1970-01-01T00:00:0")
            page.get_by_label("Times").select_option("millis")
            expect(table).not_to_contain_text("1970")
            page.get_by_role("tab", name="On a time axis").click()
            expect(page.locator(".span rect")).to_have_count(len(puts))
            watched.check()


def test_an_index_of_a_custom_store_is_asked(browser: Browser, tmp_path: Path) -> None:
    install_guide(tmp_path / "site")
    rows = {"N1": {"origin": "EWR"}, "N2": {"origin": "JFK"}, "N3": {"origin": "EWR"}}
    with running(tmp_path, 1) as cluster:
        with Writer(cluster.url, cluster.store) as job:
            job.write(Record(*row) for row in rows.items())
        with opened(browser, at(cluster, "ask?kind=index")) as watched:
            page = watched.page
            page.locator("[name=index]").fill("by-origin")
            page.locator("[name=lower]").fill("EWR")
            page.locator("[name=upper]").fill("EWR")
            page.keyboard.press("Enter")
            table = page.get_by_role("region", name="Rows").locator("tbody")
            expect(table.locator("tr")).to_have_count(2)
            expect(table).to_contain_text("N3")
            watched.check()
