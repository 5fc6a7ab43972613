"""The options of the commands: what they refuse."""

from pathlib import Path

import pytest
import typer

from qss_client.cli.options import state_directory


def test_an_empty_state_directory_is_refused_and_is_not_the_current_directory() -> None:
    with pytest.raises(typer.BadParameter, match=r"without the option it is \.qss"):
        state_directory("")
    assert state_directory(".") == Path()
