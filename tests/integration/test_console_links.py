"""A link of the console may come from anybody: what it gives to copy does only what it says."""

import ast
import shlex
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Browser

from qss_testing.console.browser import chromium, opened
from qss_testing.pods.pod_process import PodCluster

pytestmark = pytest.mark.long

CODE = "1)\nprint('run'"
SHELL = "x; echo run"
LINKS: list[dict[str, str]] = [
    {"kind": "get", "key": "--url=http://a", "timeout": CODE, "maxStaleness": CODE},
    {"kind": "get", "key": SHELL, "isolation": SHELL, "positionBound": SHELL},
    {"kind": "range", "from": CODE, "order": SHELL, "limit": CODE, "partitions": "0],print('run')"},
    {"kind": "query", "type": "other", "members": '{"type": "x; echo run", "-o": "csv"}'},
    {"kind": "get", "key": "a", "partition": "3\n; echo run"},
    {"kind": "count", "exact": SHELL, "timeout": SHELL},
]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


def test_what_a_link_gives_to_copy_runs_nothing_else(browser: Browser, tmp_path: Path) -> None:
    with PodCluster(tmp_path, partitions=1) as cluster:
        for given in LINKS:
            with opened(browser, f"{cluster.url}/console/#/ask?{urlencode(given)}") as watched:
                texts = watched.page.locator(".snippet pre")
                texts.first.wait_for()
                curl, command, program = texts.all_inner_texts()
            for line in (curl, command):
                words = list(shlex.shlex(line, posix=True, punctuation_chars=True))
                assert not {";", "&&", "|", "\n"} & {*words}, line
            before, _, behind = command.partition(" -- ")
            assert "--url=http://a" not in shlex.split(before), command
            assert ("--url=http://a" in shlex.split(behind)) == ("--url" in given.get("key", ""))
            calls = [one for one in ast.walk(ast.parse(program)) if isinstance(one, ast.Call)]
            called = [ast.unparse(one.func) for one in calls]
            assert called.count("print") == 1, program
            assert {*called} <= {"Store", "ReadOptions", "print", f"store.{given['kind']}"}
