"""A link of the console may come from anybody: what it gives to copy does only what it says."""

import ast
import shlex
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Browser, expect

from qss_client.cli.console.command import kubectl_options, redirect_file
from qss_client.cli.console.gateway import gateway
from qss_client.cli.options import Place
from qss_client.http.sync_http import SyncHttp
from qss_core.errors import KeyNotFoundError
from qss_testing.console.browser import opened
from qss_testing.fakes.reviewer import Reviewer, make_token
from qss_testing.pods.guarded import READER, guarded, rights
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


def test_texts_of_a_page_behind_qss_console_lead_to_the_pod(
    browser: Browser, tmp_path: Path
) -> None:
    token = make_token(READER)
    with (
        Reviewer(rights()) as reviewer,
        guarded(tmp_path, reviewer) as cluster,
        closing(SyncHttp(token)) as http,
    ):
        for kubectl, asks_token, start, behind in (
            ([], True, "qss get words k ", f"--url {cluster.url} --token-file TOKEN_FILE"),
            (["-n", "shop"], True, "kubectl qss get words k ", "-n shop"),
            (["-n", "shop"], False, "kubectl qss get words k ", "-n shop"),
        ):
            with (
                gateway(http, cluster.url, 10.0, kubectl, asks_token=asks_token) as address,
                redirect_file(address) as file_url,
                opened(browser, file_url) as watched,
            ):
                page = watched.page
                expect(page.get_by_role("heading", name="Overview")).to_be_visible()
                page.evaluate("location.hash = '#/ask?kind=get&key=k'")
                expect(page.get_by_role("alert")).to_contain_text("The key is not in the store")
                curl, command, program = page.locator(".snippet pre").all_inner_texts()
                assert command == start + behind
                # The listener takes no token; the pod does.
                url = shlex.split(curl)[2]
                with pytest.raises(KeyNotFoundError):
                    http.request("GET", url, timeout_s=10.0)
                assert url.startswith(cluster.url)
                assert f'Store("{cluster.url}", "words"' in program
                assert ("direct=False" in program) == bool(kubectl)
                assert ("$TOKEN" in curl, "token_file" in program) == (asks_token, asks_token)
                assert watched.errors == []


def test_the_options_of_kubectl_are_those_of_the_command() -> None:
    place = Place(
        None, Path(), None, None, is_on_kubernetes=False, context=None, service_account="default"
    )
    assert kubectl_options("words", place) == []
    there = replace(place, is_on_kubernetes=True)
    assert kubectl_options("shop/words", there) == ["-n", "shop"]
    given = replace(
        there,
        namespace="shop",
        context="c",
        kubeconfig="k",
        service_account="reader",
        token_file=Path("t"),
        ca_file=Path("ca.crt"),
    )
    assert kubectl_options("words", given) == [
        "-n",
        "shop",
        "--context",
        "c",
        "--kubeconfig",
        "k",
        "--token-file",
        "t",
        "--ca-file",
        "ca.crt",
        "--service-account",
        "reader",
    ]
