"""`make screenshots`: the pictures of the console that the documentation shows.

It prints when the overview was painted first, beside a page of one line.
"""

import sys
import tempfile
import threading
from pathlib import Path

import msgspec
from playwright.sync_api import Browser, Page, ViewportSize

from qss_core.model import Epoch, Ordinal
from qss_testing.console.browser import chromium, opened
from qss_testing.pods.pod_process import PodCluster
from qss_testing.writers.writer import Record, Writer

_STORE = "aircraft"
_PODS, _PARTITIONS = 3, 6
_SIZE: ViewportSize = {"width": 1100, "height": 700}
_OF_OVERVIEW: ViewportSize = {"width": 1100, "height": 860}  # With the curve.
_BATCHES = 60
_KEYS = [f"N{14200 + number}" for number in range(60)]
_FOUND = (
    ("Ready", "True", "Serving", f"all {_PARTITIONS} partitions are served"),
    ("Progressing", "False", "UpToDate", "pods and partitions are as the spec asks for"),
    ("Degraded", "False", "Healthy", "no pod and no replica is in trouble"),
    ("Rebalancing", "False", "NothingToMove", "every replica is where it should be"),
)
_CONDITIONS = [
    dict(zip(("type", "status", "reason", "message"), one, strict=True))
    | {"lastTransitionTime": "2026-11-27T12:00:00Z"}
    for one in _FOUND
]


def main() -> None:
    """Saves the pictures in the directory that the command line names."""
    directory = Path(sys.argv[1])
    directory.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as volumes,
        PodCluster(
            Path(volumes), pods=_PODS, standbys=1, partitions=_PARTITIONS, store=_STORE
        ) as cluster,
        Writer(cluster.url, _STORE, "aircraft-stats") as job,
        chromium() as browser,
    ):
        _write(job)
        for pod in cluster.pods:
            cluster.tell_conditions(pod, *_CONDITIONS)
        _take(browser, cluster, directory)


def _write(job: Writer) -> None:
    """Batches with a moment between them, so that the curve has a shape."""
    pause = threading.Event()
    for batch in range(_BATCHES):
        rows = [
            Record(key, {"flights": batch + number % 7, "distance": 1000 * batch + 37 * number})
            for number, key in enumerate(_KEYS[: 20 + batch % 40])
        ]
        job.write(rows, position={"flights": {"0": 400 * batch, "1": 380 * batch}})
        pause.wait(0.5)


def _take(browser: Browser, cluster: PodCluster, directory: Path) -> None:
    def take(page: Page, name: str) -> None:
        page.screenshot(path=directory / f"console-{name}.png")

    base = f"{cluster.url}/console/#"
    _print_first_paints(browser, f"{base}/overview")
    options = {"viewport": _SIZE, "reduced_motion": "reduce"}
    with opened(browser, f"{base}/overview", **options) as watched:
        page = watched.page
        page.set_viewport_size(_OF_OVERVIEW)
        page.locator(".curve canvas").wait_for()
        take(page, "overview")
        page.set_viewport_size(_SIZE)
        page.goto(f"{base}/ask?kind=prefix&prefix=N142&limit=12&executionInfo=true")
        page.get_by_role("tab", name="Table").wait_for()
        take(page, "ask")
    with opened(browser, f"{base}/partitions", color_scheme="dark", **options) as watched:
        page = watched.page
        page.locator(".cell.active").first.wait_for()
        cluster.pods[2].kill()
        page.locator(".pod.gone").wait_for()
        _take_over(cluster)
        page.get_by_role("button", name="epoch 2").first.wait_for()
        take(page, "failover")


def _print_first_paints(browser: Browser, overview: str) -> None:
    for name, address in (("a page of one line", "data:text/html,word"), ("overview", overview)):
        page = browser.new_page()
        page.goto(address)
        painted = page.wait_for_function("performance.getEntriesByType('paint')[0]?.startTime")
        sys.stdout.write(f"first paint of {name}: {painted.json_value():.0f} ms\n")
        page.close()


def _take_over(cluster: PodCluster) -> None:
    """Gives the partitions of the last pod to the standbys, as the control plane does."""
    gone = Ordinal(_PODS - 1)
    partitions = []
    for one in cluster.assignment.partitions:
        left = tuple(pod for pod in one.in_sync if pod != gone)
        if one.active == gone:
            newer = {"epoch": Epoch(2), "active": left[0], "in_sync": left, "replicas": left}
            one = msgspec.structs.replace(one, **newer)
        partitions.append(one)
    cluster.assignment = msgspec.structs.replace(cluster.assignment, partitions=tuple(partitions))
    for pod in cluster.pods[:gone]:
        cluster.assign(pod)


if __name__ == "__main__":
    main()
