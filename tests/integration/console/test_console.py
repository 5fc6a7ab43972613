"""Each pod serves the console: static files with strict headers, and a switch."""

import re
from collections.abc import Awaitable, Callable
from pathlib import Path

import aiohttp

from qss_store.http.console.files import console_files
from qss_store.runtime.settings import Settings
from qss_testing.clients.http import Api
from qss_testing.fakes.reviewer import Reviewer, make_token
from qss_testing.pods.guarded import READER, STRANGER, guarded, rights
from qss_testing.pods.ports import ports_of_block
from qss_testing.pods.stores import Cluster

StartCluster = Callable[..., Awaitable[Cluster]]
MakeApi = Callable[..., Api]
WEIGHT_BYTES_MAX = 300 * 1000
FIRST_PAINT_BYTES_MAX = 14_000  # What a new connection sends at once (RFC 6928).
LICENSES = {f"vendor/LICENSE.{name}" for name in ("htm", "preact", "uplot")}


def test_a_browser_opens_pages_at_the_ports_of_tests() -> None:
    ports = ports_of_block(0)
    assert len(ports) == 499
    assert 10_080 not in ports


async def test_every_file_has_strict_headers_and_is_asked_for_again_by_its_etag(
    start_cluster: StartCluster, api: MakeApi
) -> None:
    pod = api(await start_cluster(engine="memory"))
    for name, file in console_files().items():
        answer = await pod.get(f"/console/{name}")
        assert (answer.status, answer.body, answer.media) == (200, file.body, file.media)
        policy = answer.headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Referrer-Policy"] == "no-referrer"
        again = await pod.get(f"/console/{name}", If_None_Match=answer.headers["ETag"])
        assert (again.status, again.body) == (304, b"")
    page = await pod.get("/console/")
    assert page.body == console_files()["index.html"].body
    for path in ("/console/../app.py", "/console/%2e%2e/app.py", "/console/files.py"):
        (await pod.get(path)).problem(404, "PATH_NOT_FOUND")


def test_the_page_is_small_and_loads_nothing_from_elsewhere() -> None:
    files = console_files()
    assert set(files) >= LICENSES
    assert sum(len(files[name].body) for name in set(files) - LICENSES) <= WEIGHT_BYTES_MAX
    own = [name for name in files if name.endswith((".html", ".js", ".css"))]
    own = [name for name in own if not name.startswith("vendor/")]
    for name in own:
        text = files[name].body.decode()
        for scheme in ("http://", "https://"):
            assert scheme not in text, name
        for word in ("innerHTML", "eval(", "localStorage", "sessionStorage", "document.cookie"):
            assert word not in text, (name, word)
    page = files["index.html"].body.decode()
    assert "<style" not in page
    assert "onclick" not in page
    assert "style=" not in page


def test_nothing_but_one_style_sheet_is_waited_for_before_the_first_paint() -> None:
    files = console_files()
    page = files["index.html"].body.decode()
    head, body = page.split("</head>")
    sheets = re.findall(r'<link rel="stylesheet" href="([^"]+)">', head)
    assert sheets == ["style.css"]
    scripts = re.findall(r"<script[^>]*>", head)
    assert all('type="module"' in one or " async" in one for one in scripts), scripts
    assert "<script" not in body
    assert "Asking the pod" in body, "the page itself has words to paint"
    assert len(page) + len(files["style.css"].body) <= FIRST_PAINT_BYTES_MAX


async def test_the_console_can_be_switched_off(start_cluster: StartCluster, api: MakeApi) -> None:
    pod = api(await start_cluster(engine="memory", settings=Settings(console=0)))
    for path in ("/", "/console", "/console/", "/console/main.js"):
        (await pod.get(path, Accept="text/html")).problem(404, "PATH_NOT_FOUND")


async def test_the_printed_address_leads_a_browser_to_the_page(
    start_cluster: StartCluster, api: MakeApi
) -> None:
    pod = api(await start_cluster(engine="memory"))
    browser = "text/html,application/xhtml+xml,*/*;q=0.8"
    led = await pod.get("/", Accept=browser)
    assert led.body == console_files()["index.html"].body
    problem = (await pod.get("/")).problem(404, "PATH_NOT_FOUND")
    assert "/console/" in problem["detail"]


async def test_its_files_need_no_token_and_what_it_asks_does(
    tmp_path: Path, session: aiohttp.ClientSession
) -> None:
    with Reviewer(rights()) as reviewer, guarded(tmp_path, reviewer) as cluster:
        pod = Api(session, cluster.url)
        assert (await pod.get("/console/")).status == 200
        assert (await pod.get("/console/main.js", Authorization="Bearer nonsense")).status == 200
        (await pod.get("/console/none.js")).problem(404, "PATH_NOT_FOUND")
        for path in ("/state/status/words", "/state/batches/words", "/openapi.json"):
            (await pod.get(path)).problem(401, "UNAUTHENTICATED")
        stranger = {"Authorization": f"Bearer {make_token(STRANGER)}"}
        (await pod.get("/state/status/words", **stranger)).problem(403, "FORBIDDEN")
        reader = {"Authorization": f"Bearer {make_token(READER)}"}
        assert (await pod.get("/state/status/words", **reader)).status == 200
        assert (await pod.get("/state/batches/words", **reader)).status == 200
