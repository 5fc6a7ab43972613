"""The options of the commands: what they refuse."""

from pathlib import Path
from typing import Any

import pytest
import typer

from qss_client.cli.main import main
from qss_client.cli.options import key_of, state_directory
from qss_core.errors import MalformedRequestError
from qss_core.serdes.registry import serde_of


def test_an_empty_state_directory_is_refused_and_is_not_the_current_directory() -> None:
    with pytest.raises(typer.BadParameter, match=r"without the option it is \.qss"):
        state_directory("")
    assert state_directory(".") == Path()


def test_the_help_of_a_sorted_scan_says_where_negative_keys_come(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    with pytest.raises(SystemExit) as ended:
        main(["scan", "--help"])
    assert ended.value.code == 0
    said = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert "by the bytes of the keys over all partitions" in said
    assert "negative numbers come after the others" in said


@pytest.mark.parametrize("command", ["get", "watch", "windows", "versions"])
def test_a_key_that_is_read_as_an_option_is_told_its_place(
    command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    advice = f"A key that begins with - stands behind --, as in `qss {command} STORE -- -KEY`"
    for key in ("-5", "--five"):
        with pytest.raises(SystemExit) as ended:
            main([command, "words", key])
        assert ended.value.code == 2
        said = " ".join(capsys.readouterr().err.replace("│", " ").split())
        assert f"No such option: {key}. {advice}" in said
    with pytest.raises(SystemExit):
        main(["count", "words", "-5"])
    assert "No such option: -5" in (said := capsys.readouterr().err)
    assert "stands behind" not in said
    with pytest.raises(SystemExit) as ended:
        main([command, "words", "--url", "http://127.0.0.1:1", "--timeout", "0.1", "--", "-5"])
    assert ended.value.code == 4


def test_control_characters_of_a_name_are_escaped_in_errors_and_warnings(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    for more in (("--state-dir", str(tmp_path)), ("--url", "http://127.0.0.1:1")):
        with pytest.raises(SystemExit):
            main(["get", "a\x1b[31m\u202eb", "k", *more])
        said = capsys.readouterr().err
        assert "[31m\\u202eb" in said
        assert said.replace("\n", "").isprintable()


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("k0", "k0"),
        ('"k0"', "k0"),
        ("7", 7),
        ("null", None),
        ('{"a": 1}', {"a": 1}),
        ("a b", "a b"),
    ],
)
def test_a_json_key_on_a_command_line_is_json_or_else_text(text: str, key: Any) -> None:
    assert key_of(serde_of("json"), text) == key


@pytest.mark.parametrize("text", ['{"a":', '"k0', " [1"])
def test_a_json_key_that_begins_as_json_and_is_none_is_refused(text: str) -> None:
    with pytest.raises(MalformedRequestError, match="not JSON"):
        key_of(serde_of("json"), text)
