"""The modules that a command imports: a user starts a new process for each command."""

import subprocess
import sys

import pytest

import qss_client


def test_the_command_line_imports_no_library_that_it_does_not_use() -> None:
    program = "import sys, qss_client.cli.queries; print(*{*sys.argv[1:]} & {*sys.modules})"
    slow = ["aiohttp", "pyarrow", "numpy", "pandas", "kubernetes"]
    done = subprocess.run(
        [sys.executable, "-c", program, *slow], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == []


def test_up_builds_no_grammars_of_international_addresses() -> None:
    program = (
        "import sys, qss_operator.resources.validation; "
        "print('jsonschema' in sys.modules, 'rfc3987_syntax' in sys.modules); "
        "import rfc3987_syntax"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["True", "False"]


@pytest.mark.parametrize("module", ["qss_client.cli.main", "qss_client.cli.plugin"])
def test_without_the_extra_of_the_command_line_a_program_says_what_to_install(module: str) -> None:
    program = (
        "import sys; sys.modules |= dict.fromkeys(['typer', 'rich', 'yaml', 'celpy']);"
        f"import qss_client, qss_client.store, {module} as program; program.main(['explain'])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert "MISSING_EXTRA: " in done.stderr
    assert "pip install 'queryable-state[cli]'" in done.stderr


def test_the_async_client_is_there_when_it_is_asked_for() -> None:
    assert qss_client.AsyncStore.__module__ == "qss_client.async_store"
    with pytest.raises(AttributeError, match="no attribute 'Stores'"):
        qss_client.Stores  # noqa: B018
