"""The shape of the code, as style.md asks for it; what a linter does not know."""

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
CODE_DIRECTORIES = ("operator", "store-pod", "spark-jobs", "tests")
MODULE_LINES_MAX = 400
FUNCTION_LINES_MAX = 50
MODULES_OF_A_LEVEL_MAX = 12
DOCSTRING_WORDS_MIN = 5
VAGUE_NAMES = {"utils", "helpers", "common", "manager", "misc"}
TOP_LEVEL = {
    "operator",
    "store-pod",
    "crds",
    "charts",
    "spark-jobs",
    "tests",
    "pyproject.toml",
    "requirements.lock",
    "README.md",
    "Makefile",
    "LICENSE",
}


def modules() -> list[Path]:
    return [
        path
        for directory in CODE_DIRECTORIES
        for path in sorted((ROOT / directory).rglob("*.py"))
        if "__pycache__" not in path.parts
    ]


def functions(path: Path) -> Iterator[tuple[str, int]]:
    """Name and length of each function, without its docstring."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[1] if ast.get_docstring(node) and len(node.body) > 1 else node.body[0]
            assert node.end_lineno is not None
            yield node.name, node.end_lineno - first.lineno + 1


def test_a_module_has_at_most_400_lines() -> None:
    long = {
        str(path.relative_to(ROOT)): lines
        for path in modules()
        if (lines := len(path.read_text().splitlines())) > MODULE_LINES_MAX
    }
    assert long == {}


def test_a_function_has_at_most_50_lines() -> None:
    long = {
        f"{path.relative_to(ROOT)}:{name}": lines
        for path in modules()
        for name, lines in functions(path)
        if lines > FUNCTION_LINES_MAX
    }
    assert long == {}


def test_a_docstring_says_something() -> None:
    empty = [
        f"{path.relative_to(ROOT)}:{getattr(node, 'name', 'module')}: {told}"
        for path in modules()
        if path.relative_to(ROOT).parts[0] != "tests"
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and (told := ast.get_docstring(node)) is not None
        and len(told.split()) < DOCSTRING_WORDS_MIN
    ]
    assert empty == []


def test_a_level_of_a_package_has_at_most_12_modules() -> None:
    levels = Counter(
        str(path.parent.relative_to(ROOT))
        for path in modules()
        if any(part.startswith("qss_") for part in path.relative_to(ROOT).parts)
        and path.relative_to(ROOT).parts[:2] not in (("tests", "unit"),)
        and path.name not in {"__init__.py", "__main__.py"}
    )
    full = {level: count for level, count in levels.items() if count > MODULES_OF_A_LEVEL_MAX}
    assert full == {}


@pytest.mark.parametrize("directory", CODE_DIRECTORIES)
def test_the_tree_in_a_readme_is_the_tree_on_disk(directory: str) -> None:
    on_disk = {
        parent.relative_to(ROOT / directory)
        for path in modules()
        if path.is_relative_to(ROOT / directory)
        for parent in (path.parent, *path.parent.parents)
        if parent != ROOT / directory and parent.is_relative_to(ROOT / directory)
    }
    readme = (ROOT / directory / "README.md").read_text()
    told = readme.partition("## The tree\n\n```text\n")[2].partition("```")[0]
    assert set(folders_of(told)) == on_disk


def folders_of(tree: str) -> Iterator[Path]:
    """The folders that a tree names: a name ends with a slash, two spaces are one floor deeper."""
    above: list[str] = []
    for line in tree.splitlines():
        name = line.split()[0]
        above[(len(line) - len(line.lstrip())) // 2 :] = [name.rstrip("/")]
        yield Path(*above)


def test_no_directory_hides_a_package_of_another_name() -> None:
    # `operator/__init__.py` would hide the standard library's `operator`.
    stray = [name for name in CODE_DIRECTORIES if (ROOT / name / "__init__.py").exists()]
    assert stray == []


def test_a_module_is_named_by_what_it_is() -> None:
    vague = [str(path.relative_to(ROOT)) for path in modules() if path.stem in VAGUE_NAMES]
    assert vague == []


def test_the_top_level_has_the_agreed_names_only() -> None:
    names = {path.name for path in ROOT.iterdir() if not path.name.startswith(".")}
    assert names - TOP_LEVEL == set()


def test_every_directory_has_a_readme_with_decisions() -> None:
    missing = [
        name
        for name in ("operator", "store-pod", "spark-jobs", "crds", "tests")
        if not (ROOT / name / "README.md").exists()
        or "## Decisions" not in (ROOT / name / "README.md").read_text()
    ]
    assert missing == []
