"""The options of the commands: what they refuse."""

from pathlib import Path

import pytest
import typer

from qss_client.cli.main import main
from qss_client.cli.options import state_directory


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


def test_control_characters_of_a_name_are_escaped_in_errors_and_warnings(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    for more in (("--state-dir", str(tmp_path)), ("--url", "http://127.0.0.1:1")):
        with pytest.raises(SystemExit):
            main(["get", "a\x1b[31m\u202eb", "k", *more])
        said = capsys.readouterr().err
        assert "[31m\\u202eb" in said
        assert said.replace("\n", "").isprintable()
