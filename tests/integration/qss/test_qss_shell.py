"""`qss shell`: lines become commands, with the store and the options of the shell."""

import io
import stat
import sys
from pathlib import Path

import pytest
import typer
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document

from qss_client.cli.main import make_app
from qss_client.cli.shell.interactive import history_file
from qss_client.cli.shell.line_completer import LineCompleter
from qss_client.cli.shell.lines import Lines
from qss_core.errors import MalformedRequestError
from qss_testing.clients.terminal import Terminal
from qss_testing.page_commands import outputs_of_page

PAGE = outputs_of_page("store-pod/docs/command-line.md")


@pytest.fixture(scope="module")
def lines() -> Lines:
    options = ("--url=http://a:1", "--timeout=3", "--kube")
    return Lines(typer.main.get_command(make_app()), "words", options)


def completed(lines: Lines, text: str) -> list[str]:
    """What a Tab behind the text offers."""
    found = LineCompleter(lines).get_completions(Document(text), CompleteEvent())
    return [one.text for one in found]


def test_a_line_gets_the_store_and_the_options_that_its_command_has(lines: Lines) -> None:
    added = ["--url=http://a:1", "--timeout=3", "--kube"]
    assert lines.arguments("get 'a b' c # two keys") == ["get", *added, "words", "a b", "c"]
    assert lines.arguments("explain NOT_READY") == ["explain", "NOT_READY"]
    assert lines.arguments("get a --url=http://b:1") == [
        *("get", "--timeout=3", "--kube", "words", "a", "--url=http://b:1"),
    ]
    assert lines.arguments("load f.csv") == ["load", *added, "--store", "words", "f.csv"]
    assert lines.arguments("load f.csv --store=x")[-2:] == ["f.csv", "--store=x"]
    assert lines.arguments("unknown a") == ["unknown", "a"]
    assert lines.arguments("help") == ["--help"]
    assert lines.arguments("help get") == ["get", "--help"]
    assert lines.arguments("  # nothing") == []
    for line in ("get C#1", "get 'C'#1", "get 'C#1' # a 'note"):
        assert lines.arguments(line) == ["get", *added, "words", "C#1"], line
    assert lines.arguments(r"get '#1' \#2") == ["get", *added, "words", "#1", "#2"]


@pytest.mark.parametrize(
    ("line", "words"),
    [("get 'a", "close the quotes"), ("shell", "outside"), ("x" * 100_001, "at most 100000")],
)
def test_a_line_that_is_no_command_is_refused(lines: Lines, line: str, words: str) -> None:
    with pytest.raises(MalformedRequestError, match=words):
        lines.arguments(line)


def test_words_are_completed_as_in_the_users_shell(lines: Lines) -> None:
    assert completed(lines, "desc") == ["describe"]
    assert completed(lines, "scan -o nd") == ["ndjson"]
    assert completed(lines, "query Ke") == ["KeyQuery"]
    assert "--prefix" in completed(lines, "scan --p")
    assert completed(lines, "get 'a") == []


def test_lines_of_a_pipe_are_run_as_on_the_page(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = "printf 'get a1\\ncount --exact\\n' | qss shell words"
    monkeypatch.setattr(sys, "stdin", io.StringIO("get a1\ncount --exact\n"))
    done = terminal.run("shell", "words")
    assert (done.code, done.err) == (0, "")
    assert done.out == PAGE[command]


def test_an_error_ends_its_line_only(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "get none\nno-command\nget 'a\n\nget a1 -o csv\nexit\nget a2\n"
    monkeypatch.setattr(sys, "stdin", io.StringIO(text))
    done = terminal.run("shell", "words")
    assert done.code == 3  # That of the first line, as a script needs it.
    assert done.out.splitlines()[1:] == ['a1,"{""n"":1}",1000']
    assert "KEY_NOT_FOUND" in done.err
    assert "No such command" in done.err
    assert "close the quotes" in done.err


def test_the_history_is_readable_by_its_owner_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    path = history_file()
    assert path == tmp_path / "qss" / "history"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
