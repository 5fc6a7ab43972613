"""The questions of the console for other programs: each text asks the same, with every option."""

import ast
import inspect
import re
import shlex
import signal
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect
from typer.main import get_command

from qss_client import ReadOptions, Store
from qss_client.cli.main import main, make_app
from qss_client.http.sync_http import SyncHttp
from qss_core.model import StoreType
from qss_testing.clients.terminal import Program
from qss_testing.console.browser import opened
from qss_testing.pods.pod_process import PodCluster
from qss_testing.pods.stores import Put, slice_of
from qss_testing.writers.writer import Record, Writer

pytestmark = pytest.mark.long

LONG = "9007199254740993"  # A float64 has no such number.
MOST = "9223372036854775807"
LONG_KEY = "x" * 3000
HOUR_MS = 3_600_000


@pytest.fixture(scope="module")
def numbers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PodCluster]:
    """A store with int64 keys, of which a float64 cannot hold two."""
    with PodCluster(
        tmp_path_factory.mktemp("pods"), partitions=2, store="numbers", key_serde="int64"
    ) as cluster:
        with Writer(cluster.url, cluster.store) as job:
            job.write([Record(key, f"of {key}") for key in (int(LONG), int(MOST), -5, 7)])
        yield cluster


@pytest.fixture(scope="module")
def words(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PodCluster]:
    with PodCluster(tmp_path_factory.mktemp("pods"), partitions=2) as cluster:
        with Writer(cluster.url, cluster.store) as job:
            rows = [Record(f"k{number:02}", number, 1000) for number in range(30)]
            job.write([*rows, Record(LONG_KEY, "of a long key", 1000)])
        yield cluster


@pytest.mark.parametrize(
    ("kind", "filled", "keys"),
    [
        ("get", {"key": "-5"}, ["-5"]),
        ("many", {"keys": f"-5\n{LONG}\n{MOST}"}, ["-5", LONG, MOST]),
        ("range", {"from": LONG, "to": MOST}, [LONG, MOST]),
        ("query", {"member.key": MOST}, [MOST]),
    ],
)
def test_whole_numbers_keep_their_digits_in_every_text(
    browser: Browser,
    numbers: PodCluster,
    kind: str,
    filled: dict[str, str],
    keys: list[str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    with opened(browser, f"{numbers.url}/console/#/ask?kind={kind}") as watched:
        page = watched.page
        for name, text in filled.items():
            page.locator(f'[name="{name}"]').fill(text)
        page.get_by_role("button", name="Ask", exact=True).click()
        rows = page.get_by_role("region", name="Rows")
        for key in keys:
            expect(rows).to_contain_text(f"of {key}")
        if kind == "many":
            expect(page.get_by_role("status").first).to_contain_text("3 rows from 2 partitions")
        curl, command, program = page.locator(".snippet pre").all_inner_texts()
        _, name, *rest = shlex.split(command)
        answers = [body_by_curl(curl), Program(main, capsys).run(name, "-o", "json", *rest).out]
        exec(program, {})  # What the page gives to copy has to run.
        for answer in (*answers, capsys.readouterr().out):
            assert [key for key in keys if f"of {key}" not in answer] == []
        watched.check()


def body_by_curl(command: str) -> str:
    """The answer to the request that a command of curl sends."""
    _, _, url, *rest = shlex.split(command)
    body = rest[1].encode() if rest else None
    with closing(SyncHttp()) as http:
        method = "GET" if body is None else "POST"
        headers = {"Content-Type": "application/json"}
        return http.request(method, url, body=body, headers=headers).body.decode()


def test_a_long_key_is_asked_in_a_body_and_no_key_has_no_texts(
    browser: Browser, words: PodCluster
) -> None:
    with opened(browser, f"{words.url}/console/#/ask?kind=get") as watched:
        page = watched.page
        texts = page.locator(".snippet pre")
        expect(page.locator(".elsewhere")).to_contain_text("once the form has Key")
        expect(texts).to_have_count(0)
        page.locator("[name=key]").fill(LONG_KEY)
        page.keyboard.press("Enter")
        expect(page.get_by_role("region", name="Rows")).to_contain_text("of a long key")
        curl = texts.first.inner_text()
        assert "/state/get/words" in curl
        assert "of a long key" in body_by_curl(curl)
        watched.check()


def test_the_form_of_a_query_asks_for_what_the_document_requires(
    browser: Browser, tmp_path: Path
) -> None:
    given: dict[str, Any] = {"type": StoreType.WINDOW, "window_size_ms": 1000}
    with PodCluster(tmp_path, partitions=1, retention_ms=HOUR_MS, **given) as cluster:
        with Writer(cluster.url, cluster.store) as job:
            puts = [Put(b"a", b"5", 1, start=2000)]
            job.write_slices([slice_of(cluster.assignment.definition, 0, puts)])
        with opened(browser, f"{cluster.url}/console/#/ask?kind=query") as watched:
            page = watched.page
            page.locator("[name=type]").select_option("WindowKeyQuery")
            told = page.locator(".elsewhere")
            expect(told).to_contain_text("once the form has key, timeFrom, timeTo")
            for name, text in (("key", "a"), ("timeFrom", "0"), ("timeTo", "1970-01-02")):
                expect(page.locator(f'[name="member.{name}"]')).to_have_attribute("required", "")
                page.locator(f'[name="member.{name}"]').fill(text)
            page.keyboard.press("Enter")
            expect(page.get_by_role("region", name="Rows")).to_contain_text("5")
            curl = page.locator(".snippet pre").first.inner_text()
            assert '"timeTo": "1970-01-02"' in curl
            assert '"value":5' in body_by_curl(curl).replace(" ", "")
            watched.check()


def test_an_answer_is_shown_under_its_own_question_alone(
    browser: Browser, words: PodCluster
) -> None:
    with opened(browser, f"{words.url}/console/#/ask?kind=prefix&prefix=k&limit=12") as watched:
        page = watched.page
        rows = page.get_by_role("region", name="Rows").locator("tbody tr")
        expect(rows).to_have_count(12)
        page.locator("[name=prefix]").fill("nothing")
        page.locator("[name=limit]").fill("1")
        page.get_by_role("button", name="Next page").click()  # Of the question that was asked.
        expect(page.get_by_text("page 2")).to_be_visible()
        expect(rows).to_have_count(12)
        page.get_by_role("link", name="Ask", exact=True).click()
        expect(page.get_by_text("The answer comes here.")).to_be_visible()
        expect(rows).to_have_count(0)
        page.locator("#kind").select_option("prefix")
        expect(page.locator("[name=prefix]")).to_have_value("")
        page.go_back()
        page.go_back()
        expect(rows).to_have_count(12)
        expect(page.locator("[name=prefix]")).to_have_value("k")
        page.go_forward()
        expect(rows).to_have_count(0)
        watched.check()


def test_a_pod_that_hangs_is_not_called_serving(browser: Browser, tmp_path: Path) -> None:
    with (
        PodCluster(tmp_path, partitions=1) as cluster,
        opened(browser, f"{cluster.url}/console/#/overview") as watched,
    ):
        page = watched.page
        status = page.get_by_role("heading", name=re.compile("^Status: "))
        expect(status).to_have_text("Status: Serving")
        process = cluster.pods[0].process
        assert process is not None
        process.send_signal(signal.SIGSTOP)
        try:
            expect(status).to_have_text(re.compile(r"Not known since \d\d:\d\d:\d\d"))
            # The first sentence stands for one second, until the page gives the question up.
            told = re.compile(r"has not answered for two seconds|did not answer within \d s")
            expect(page.get_by_role("alert").first).to_contain_text(told)
            expect(page.locator(".trouble")).to_contain_text("the figures of then, not of now")
            page.get_by_role("link", name="Partitions").click()
            cell = page.get_by_role("button", name="partition 0, was active, epoch 1")
            expect(cell).to_contain_text("was level")
            page.goto(f"{cluster.url}/console/#/ask?kind=get&key=k")
            expect(page.get_by_role("status").first).to_contain_text("Waiting for the answer for")
        finally:
            process.send_signal(signal.SIGCONT)
        expect(page.locator(".trouble")).to_have_count(0)
        watched.check()


def test_wrong_links_are_told_and_times_stay_in_the_link(
    browser: Browser, words: PodCluster
) -> None:
    base = f"{words.url}/console/#"
    with opened(browser, f"{base}/nope") as watched:
        page = watched.page
        alert = page.get_by_role("alert")
        expect(alert).to_have_text('The page has no view "nope": this is the overview.')
        for kind in ("windows", "nonsense"):
            page.goto(f"{base}/ask?kind={kind}&key=k01")
            expect(alert).to_contain_text(f'KeyValue has no question "{kind}"')
            expect(page.get_by_text("The answer comes here.")).to_be_visible()
        page.goto(f"{base}/ask?kind=get&key=k01&times=millis")
        rows = page.get_by_role("region", name="Rows")
        expect(rows.locator("tbody")).to_have_text("k0111000")
        expect(alert).to_have_count(0)
        page.get_by_label("Times").select_option("local")
        assert page.url.endswith("times=local")
        page.get_by_role("link", name="Live", exact=True).click()
        expect(page).to_have_url(re.compile(r"#/live\?times=local$"))
        page.reload()
        expect(page.get_by_label("Times")).to_have_value("local")
        watched.check()


def test_odd_keys_and_large_values_are_shown(browser: Browser, tmp_path: Path) -> None:
    with PodCluster(tmp_path, partitions=1) as cluster:
        with Writer(cluster.url, cluster.store) as job:
            many = [Record(f"p{number:03}", number) for number in range(101)]
            odd = [Record(" a  b\nc ", 1), Record("huge", "x" * 150_000)]
            wide = {f"m{number:02}": number for number in range(30)}
            job.write([*many, *odd, Record("wide", wide)])
            job.write([Record(f"r{number:04}", number) for number in range(1001)])
        with opened(browser, f"{cluster.url}/console/#/ask?kind=range&to=b") as watched:
            page = watched.page
            rows = page.get_by_role("region", name="Rows").locator("tbody tr")
            expect(rows).to_contain_text("␣a␣␣b↵c␣")
            page.goto(f"{cluster.url}/console/#/ask?kind=get&key=huge")
            expect(rows).to_contain_text("huge")
            page.get_by_role("tab", name="JSON").click()
            panel = page.get_by_role("tabpanel")
            expect(panel).to_contain_text(re.compile("The first 100.000 of 150"))
            page.get_by_role("button", name="Show all").click()
            assert len(panel.inner_text()) > 150_000
            page.goto(f"{cluster.url}/console/#/ask?kind=many&keys=wide%0Anone")
            expect(page.get_by_role("tabpanel")).to_contain_text("The first 24 of 34 columns")
            expect(page.get_by_text("1 row from 1 partition, 1 key absent")).to_be_visible()
            page.goto(f"{cluster.url}/console/#/ask?kind=prefix&prefix=r&limit=5000")
            expect(page.get_by_text(re.compile("The first 1.000 of 1.001 rows"))).to_be_visible()
            expect(rows).to_have_count(1000)
            page.goto(f"{cluster.url}/console/#/live?mode=prefix&of=p")
            expect(rows).to_have_count(100)
            expect(page.get_by_text("The first 100 rows; more are there")).to_be_visible()
            page.goto(f"{cluster.url}/console/#/live?mode=prefix&of=p00")
            expect(rows).to_have_count(10)
            expect(page.get_by_text("more are there")).to_have_count(0)
            watched.check()


# --- Every option

KEYED = {"key": "-k", "partition": "3"}
READ = {
    "isolation": "READ_UNCOMMITTED",
    "requireActive": "true",
    "maxStaleness": "0.5",
    "positionBound": "AAAA",
    "timeout": "3",
}
SHARED = ["--isolation", "--require-active", "--max-staleness", "--position-bound", "--timeout"]
PAGE = {"order": "DESCENDING", "limit": "7"}
TIMES = {"timeFrom": "5", "timeTo": "9"}
SOME = {"partitions": "0,3"}
"""Of each kind: the fields, the options of qss for them, the arguments in Python."""
QUESTIONS: dict[str, tuple[dict[str, str], list[str], set[str]]] = {
    "get": (KEYED, ["--"], set()),
    "many": ({"keys": "a\nb", "partition": "3"}, [], set()),
    "range": (
        {"from": "-a", "to": "b", **PAGE, **SOME},
        ["--from=-a", "--to", "--descending", "--limit", "--partitions"],
        {"lower", "upper", "order", "limit", "partitions"},
    ),
    "prefix": (
        {"prefix": "a", **PAGE, **SOME},
        ["--prefix", "--descending", "--limit", "--partitions"],
        {"order", "limit", "partitions"},
    ),
    "index": (
        {"index": "i", "lower": "1", "upper": "2", **PAGE, **SOME},
        ["--index", "--from", "--to", "--descending", "--limit", "--partitions"],
        {"index", "lower", "upper", "order", "limit", "partitions"},
    ),
    "windowsOf": (
        {**KEYED, **TIMES, **PAGE},
        ["--from", "--to", "--order", "--limit", "--"],
        {"from_", "to", "order", "limit"},
    ),
    "windows": (
        {"keyFrom": "a", "keyTo": "b", **TIMES, "orderBy": "time", **PAGE, **SOME},
        ["--key-from", "--key-to", "--from", "--to", "--order-by", "--order", "--partitions"],
        {"key_from", "key_to", "from_", "to", "order_by", "order", "limit", "partitions"},
    ),
    "sessionsOf": (
        {**KEYED, "endFrom": "1", "startTo": "2", **PAGE},
        ["--end-from", "--start-to", "--order", "--limit", "--"],
        {"end_from", "start_to", "order", "limit"},
    ),
    "sessions": (
        {"keyFrom": "a", "endFrom": "1", "orderBy": "time", **PAGE, **SOME},
        ["--key-from", "--end-from", "--order-by", "--order", "--limit", "--partitions"],
        {"key_from", "end_from", "order_by", "order", "limit", "partitions"},
    ),
    "version": ({**KEYED, "asOf": "5"}, ["--as-of", "--"], {"as_of"}),
    "versions": (
        {**KEYED, **TIMES, "order": "ANY", "limit": "7"},
        ["--from", "--to", "--order", "--limit", "--"],
        {"from_", "to", "order", "limit"},
    ),
    "count": ({"exact": "true", **SOME}, ["--exact", "--partitions"], {"exact", "partitions"}),
    "query": (
        {"type": "other", "members": '{"k": 1.50, "type": "TopKQuery", "by": "7"}', **SOME}
        | {"limit": "7", "executionInfo": "true"},
        ["--partitions", "--limit", "--execution-info", 'by="7"', "k=1.50"],
        {"partitions", "limit", "execution_info", "members"},
    ),
}
TEXTS = """async ([kind, values, definition]) => {
  const { asCommand, asPython } = await import('/console/other-programs.js');
  return [asCommand, asPython].map(make => make(kind, values, definition, null, false));
}"""


def texts_of(page: Page, kind: str, values: dict[str, str]) -> list[str]:
    definition = {"name": "words", "keySerde": "string"}
    found: list[str] = page.evaluate(TEXTS, [kind, values, definition])
    return found


def test_every_text_has_every_option_or_says_which_it_leaves_out(
    browser: Browser, numbers: PodCluster
) -> None:
    with opened(browser, f"{numbers.url}/console/") as watched:
        for kind, (fields, flags, arguments) in QUESTIONS.items():
            command, program = texts_of(watched.page, kind, {**fields, **READ})
            *comment, line = command.split("\n")
            words = shlex.split(line)
            assert [one for one in (*SHARED, *flags) if one not in words] == [], line
            parsed(words)
            assert comment == [], kind
            assert ("--partition" in words) == ("partition" in fields), kind
            given, options = arguments_of(program)
            assert given == arguments | ({"options"} if "options" in given else set()), program
            assert options.position_bound == "AAAA"
            assert (options.timeout_s, options.max_staleness_s) == (3, 0.5)
            assert (options.isolation, options.require_active) == ("READ_UNCOMMITTED", True)
            assert options.partition == (3 if "partition" in fields else None)
        latest, _ = texts_of(watched.page, "version", {"key": "a", "partition": "3"})
        hint, line = latest.split("\n")
        assert hint == "# qss query has no option for partition=3: this command leaves it out"
        assert line.startswith("qss query words VersionedKeyQuery key=a ")
        watched.check()


def parsed(words: list[str]) -> None:
    """Parses a command of qss without running it. Raises an error of usage for a wrong option."""
    group: Any = get_command(make_app(words[1:2]))
    group.commands[words[1]].make_context(words[1], words[2:])


def arguments_of(program: str) -> tuple[set[str], ReadOptions]:
    """The names of the arguments of the call in a program, and its options."""
    calls = [one for one in ast.walk(ast.parse(program)) if isinstance(one, ast.Call)]
    options = next(one for one in calls if isinstance(one.func, ast.Name) and _is_options(one))
    call = next(one for one in calls if isinstance(one.func, ast.Attribute))
    assert isinstance(call.func, ast.Attribute)
    names = {str(one.arg) for one in call.keywords}
    method: Any = getattr(Store, call.func.attr)
    inspect.signature(method).bind(None, *call.args, **dict.fromkeys(names))
    members = {str(one.arg): ast.literal_eval(one.value) for one in options.keywords}
    return names, ReadOptions(**members)


def _is_options(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Name) and call.func.id == "ReadOptions"
