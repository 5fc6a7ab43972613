"""The console's overview in a real Chromium: conditions, batches of before, times of the day."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pytest
from msgspec.structs import replace
from playwright.sync_api import Browser, Page, ViewportSize, expect

from qss_core.model import Epoch
from qss_testing.console.browser import opened
from qss_testing.pods.pod_process import PodCluster
from qss_testing.waiting import wait_until
from qss_testing.writers.writer import Record, Writer

pytestmark = pytest.mark.long

LINES = """cell => {
  const range = document.createRange();
  const text = cell.firstChild;
  range.setStart(text, 0);
  range.setEnd(text, text.data.split(" ")[0].length);
  return new Set([...range.getClientRects()].map(one => one.top)).size;
}"""

# Notes the texts that are drawn on canvases; those of the axis of times have a colon.
NOTE_TEXTS = """window.drawn = new Set();
const draw = CanvasRenderingContext2D.prototype.fillText;
CanvasRenderingContext2D.prototype.fillText = function (text, ...rest) {
  if (/^[0-9]+:/.test(text)) window.drawn.add(text);
  return draw.call(this, text, ...rest);
};"""


def condition(kind: str, status: str, reason: str, message: str) -> dict[str, str]:
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": "2026-11-27T12:00:00Z",
    }


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[PodCluster]:
    with PodCluster(tmp_path, partitions=2) as cluster:
        yield cluster


def test_batches_stay_when_the_coordinator_begins_anew(
    browser: Browser, cluster: PodCluster
) -> None:
    with opened(browser, f"{cluster.url}/console/#/overview") as watched:
        page = watched.page
        with Writer(cluster.url, cluster.store, "before") as job:
            job.write([Record("a", 1), Record("b", 2)])
        rows = page.get_by_role("region", name="The newest batches").locator("tbody tr")
        expect(rows).to_have_count(1)
        shown = rows.first.inner_text()
        cluster.pods[0].kill()
        expect(page.get_by_role("alert")).to_be_visible()
        begin_again(cluster)
        with Writer(cluster.url, cluster.store, "behind") as job:
            job.write([Record("c", 3)])
        expect(rows).to_have_count(2)
        assert rows.nth(1).inner_text() == shown
        curve = page.locator(".curve")
        expect(curve).to_have_attribute("aria-label", re.compile("2 batches, 3 rows"))
        page.reload()
        expect(rows).to_have_count(2)
        expect(rows.nth(1)).to_contain_text("before")
        expect(rows.nth(1).locator("td").nth(4)).to_have_text("-")
        expect(page.get_by_text("The latency of 1 batch is not known")).to_be_visible()
        expect(curve).to_have_attribute("aria-label", re.compile("2 batches, 3 rows"))
        watched.check()


LATENCIES = """async () => {
  const { seriesOf } = await import('/console/overview.js');
  const minute = 14 * 60 * 1000;
  const batches = [[1000, 3], [1500, 5], [11000], [21000, 7], [21500]]
    .map(([ms, latencyMs]) => ({ committedAtMs: minute + ms, rows: 1, latencyMs }));
  return seriesOf(batches, minute + 64999)[2].slice(-13).map(String);
}"""


def test_the_curve_draws_no_latency_where_none_is_known(
    browser: Browser, cluster: PodCluster
) -> None:
    with opened(browser, f"{cluster.url}/console/#/overview") as watched:
        shown = watched.page.evaluate(LATENCIES)
        # The line goes from one number to the next one, and breaks off at null.
        assert shown[:6] == ["5", "undefined", "null", "undefined", "7", "undefined"]
        watched.check()


def begin_again(cluster: PodCluster) -> None:
    """Starts the killed pod in a new epoch, as the control plane does."""
    cluster.pods[0].start()
    newer = tuple(replace(one, epoch=Epoch(2)) for one in cluster.assignment.partitions)
    cluster.assignment = replace(cluster.assignment, partitions=newer)
    cluster.assign(cluster.pods[0])


CONDITIONS = [
    condition("Ready", "True", "Serving", "all 2 partitions are served"),
    condition("Progressing", "True", "Restarting", "1 of 3 pods was restarted"),
    condition("Degraded", "True", "VolumeFull", "the volume of words-0 is full: make it larger"),
    condition("StorageResizing", "Unknown", "NotSeen", "the claim cannot be read"),
]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_conditions_are_shown_with_the_bad_ones_first(
    browser: Browser, cluster: PodCluster, scheme: Any
) -> None:
    url = f"{cluster.url}/console/#/overview"
    options: dict[str, Any] = {"viewport": {"width": 360, "height": 800}, "color_scheme": scheme}
    with opened(browser, url, **options) as watched:
        page = watched.page
        card = page.locator("section", has=page.get_by_role("heading", name="Conditions"))
        expect(card).to_contain_text("The operator has told these pods none since they started")
        cluster.tell_conditions(cluster.pods[0], *CONDITIONS)
        expect(card.locator("b")).to_have_text(
            ["Degraded", "StorageResizing", "Progressing", "Ready"]
        )
        expect(card).to_contain_text("As the operator said")
        expect(page.get_by_text("make it larger")).to_be_visible()
        expect(card).to_contain_text("True since 2026-11-27T12:00:00Z")
        served = page.get_by_text("all 2 partitions are served", exact=True)
        expect(served).to_be_hidden()
        ready = card.locator("summary", has_text="Ready")
        expect(ready).to_have_text(re.compile(r"as it should be:\s*Ready\s+True\s+Serving"))
        ready.focus()
        page.keyboard.press("Enter")
        expect(served).to_be_visible()
        cluster.tell_conditions(
            cluster.pods[0], condition("Ready", "False", "PodsStarting", "1 of 2 is served")
        )
        expect(card.locator("b")).to_have_text(["Ready"])
        expect(page.get_by_text("1 of 2 is served")).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        watched.check()


def test_words_and_times_of_writers_are_not_broken(browser: Browser, cluster: PodCluster) -> None:
    with Writer(cluster.url, cluster.store, "load-" + "flights-of-a-long-year-" * 4 + "2013"):
        pass
    for width in (360, 2560):
        size: ViewportSize = {"width": width, "height": 900}
        with opened(browser, f"{cluster.url}/console/#/overview", viewport=size) as watched:
            cells = watched.page.get_by_role("region", name="Table of writers").locator("td")
            expect(cells.nth(1)).to_contain_text("open, silent")
            for cell in (cells.nth(1), cells.nth(3)):
                assert cell.evaluate(LINES) == 1, (width, cell.inner_text())
            assert watched.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
            watched.check()


def test_times_of_the_day_follow_the_choice(browser: Browser, cluster: PodCluster) -> None:
    url = f"{cluster.url}/console/"
    with opened(browser, url, timezone_id="Asia/Kolkata") as watched:
        page = watched.page
        page.add_init_script(NOTE_TEXTS)
        page.goto(f"{url}#/overview")
        page.reload()
        assert all(one.endswith("Z") for one in drawn_times(page)), "UTC"
        page.get_by_label("Times").select_option("local")
        wait_until(lambda: any(not one.endswith("Z") for one in drawn_times(page)), 15.0)
        page.evaluate("window.drawn.clear()")
        assert all(re.fullmatch(r"\d\d:\d\d", one) for one in drawn_times(page))
        watched.check()


# Notes the colour of the newest text on a canvas, and says how a canvas writes that of the page.
NOTE_INK = """const write = CanvasRenderingContext2D.prototype.fillText;
CanvasRenderingContext2D.prototype.fillText = function (...all) {
  window.ink = this.fillStyle;
  return write.apply(this, all);
};
window.inkOfPage = () => {
  const context = document.createElement("canvas").getContext("2d");
  context.fillStyle = getComputedStyle(document.documentElement).getPropertyValue("--quiet");
  return context.fillStyle;
};"""


def test_the_curve_takes_the_colours_of_dark_and_of_light(
    browser: Browser, cluster: PodCluster
) -> None:
    with opened(browser, f"{cluster.url}/console/", color_scheme="light") as watched:
        page = watched.page
        page.add_init_script(NOTE_INK)
        page.reload()
        inks = set()
        schemes: tuple[Literal["light", "dark"], ...] = ("light", "dark", "light")
        for scheme in schemes:
            page.emulate_media(color_scheme=scheme)
            wait_until(lambda: page.evaluate("window.ink === inkOfPage()"), 15.0)
            inks.add(page.evaluate("window.ink"))
        assert len(inks) == 2
        expect(page.locator(".curve canvas")).to_have_count(1)
        watched.check()


def drawn_times(page: Page) -> list[str]:
    """The times on the axis, once it is drawn."""
    return wait_until(lambda: page.evaluate("[...window.drawn]"), 15.0)
