"""The shape of code and pages: rules that no linter checks."""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
CODE_DIRECTORIES = ("operator", "store-pod", "spark-jobs", "tests")
MODULE_LINES_MAX = 400
FUNCTION_LINES_MAX = 50
MODULES_OF_A_LEVEL_MAX = 12
TEST_MODULES_OF_A_FOLDER_MAX = 30
DOCSTRING_WORDS_MIN = 5
# A package with at least so many modules says in so many lines how they play together.
OVERVIEW_MODULES_MIN, OVERVIEW_LINES = 2, range(15, 31)
README_LINES_MAX, README_BYTES_MAX = 150, 10 * 1024
DECISION_LINES_MIN, DECISION_LINES_MAX, PROSE_COLUMNS_MAX = 3, 6, 150
# The names of directories in the citations of RESULTS.md.
CITED_AS = {
    "store-pod": "store-pod",
    "operator": "operator",
    "spark-jobs": "spark-jobs",
    "chart": "charts/queryable-state",
    "tests": "tests",
    "images": "tests/e2e/images",
}
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
    "CHANGELOG.md",
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
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and (told := ast.get_docstring(node)) is not None
        and len(told.split()) < DOCSTRING_WORDS_MIN
    ]
    assert empty == []


def test_a_package_says_how_its_modules_play_together() -> None:
    other = {
        name: lines
        for package in modules()
        if package.name == "__init__.py"
        and (name := str(package.parent.relative_to(ROOT)))
        and own_modules(package.parent) >= OVERVIEW_MODULES_MIN
        and (lines := len(overview(package).splitlines())) not in OVERVIEW_LINES
    }
    assert other == {}


def overview(package: Path) -> str:
    return ast.get_docstring(ast.parse(package.read_text())) or ""


def own_modules(directory: Path) -> int:
    """The number of a package's modules, without those of the packages inside."""
    return len([path for path in directory.glob("*.py") if path.name != "__init__.py"])


def test_a_level_of_a_package_has_at_most_12_modules() -> None:
    levels = Counter(
        str(path.parent.relative_to(ROOT))
        for path in modules()
        if any(part.startswith("qss_") for part in path.relative_to(ROOT).parts)
        and path.relative_to(ROOT).parts[:2] not in (("tests", "unit"),)
        and path.name != "__init__.py"
    )
    full = {level: count for level, count in levels.items() if count > MODULES_OF_A_LEVEL_MAX}
    assert full == {}


def test_an_integration_test_stands_in_the_folder_of_what_it_is_about() -> None:
    folders = Counter(path.parent.name for path in (ROOT / "tests/integration").rglob("test_*.py"))
    assert "integration" not in folders
    full = {name: count for name, count in folders.items() if count > TEST_MODULES_OF_A_FOLDER_MAX}
    assert full == {}


@pytest.mark.parametrize("directory", CODE_DIRECTORIES)
def test_the_tree_in_a_readme_is_the_tree_on_disk(directory: str) -> None:
    on_disk = {
        parent.relative_to(ROOT / directory)
        for path in modules()
        if path.is_relative_to(ROOT / directory)
        for parent in (path.parent, *path.parent.parents)
        if parent != ROOT / directory
        and parent.is_relative_to(ROOT / directory)
        # tests/unit has the packages of the product.
        and ROOT / "tests" / "unit" not in parent.parents
    }
    readme = (ROOT / directory / "README.md").read_text()
    told = readme.partition("## The tree\n\n```text\n")[2].partition("```")[0]
    assert set(folders_of(told)) == on_disk


def folders_of(tree: str) -> Iterator[Path]:
    """The folders that a tree names: a name ends with a slash, two spaces are one level deeper."""
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


def test_work_leaves_the_event_loop_of_a_pod_by_one_way() -> None:
    ways = re.compile(r"to_thread\(|run_in_executor\(")
    store = ROOT / "store-pod" / "qss_store"
    found = [
        str(path.relative_to(store))
        for path in modules()
        if ways.search(path.read_text()) and path.is_relative_to(store)
    ]
    assert found == ["runtime/blocking.py"]


def test_the_top_level_has_the_agreed_names_only() -> None:
    names = {path.name for path in ROOT.iterdir() if not path.name.startswith(".")}
    # What commands leave here, as `make dist` does, is none of the repository's.
    left = {line.rstrip("/") for line in (ROOT / ".gitignore").read_text().splitlines()}
    assert names - left - TOP_LEVEL == set()


def pages() -> list[Path]:
    """All Markdown files of the repository."""
    below = (
        path
        for directory in (*CODE_DIRECTORIES, "crds", "charts")
        for path in sorted((ROOT / directory).rglob("*.md"))
        if not any(part.startswith(".") for part in path.relative_to(ROOT).parts)
    )
    return [ROOT / "README.md", *below]


def prose(page: Path) -> str:
    """The text of a page outside of its blocks of code."""
    return re.sub(r"^( *)```.*?^\1```$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)


def test_no_page_has_the_marks_of_a_merge() -> None:
    marks = ("<" * 7 + " ", ">" * 7 + " ")
    all_pages = [*pages(), ROOT / "CHANGELOG.md"]
    marked = [
        page
        for page in all_pages
        if any(line.startswith(marks) for line in page.read_text().splitlines())
    ]
    assert marked == []


def headings(page: Path) -> set[str]:
    """The anchors of a page's headings, as on GitHub."""
    titles = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def test_a_readme_has_at_most_150_lines_and_10_kb() -> None:
    long = {
        str(page.relative_to(ROOT)): (len(page.read_text().splitlines()), page.stat().st_size)
        for page in pages()
        if page.name == "README.md"
        and (
            len(page.read_text().splitlines()) > README_LINES_MAX
            or page.stat().st_size > README_BYTES_MAX
        )
    }
    assert long == {}


def test_a_link_of_a_page_leads_to_a_file_and_its_heading() -> None:
    broken = [
        f"{page.relative_to(ROOT)}: {link}"
        for page in pages()
        for link in re.findall(r"(?<=\]\()[^)\s]+(?=\))|(?<=<img src=\")[^\"]+", prose(page))
        if "://" not in link and not leads_somewhere(page, link)
    ]
    assert broken == []


def leads_somewhere(page: Path, link: str) -> bool:
    file, _, heading = link.partition("#")
    target = (page.parent / file).resolve() if file else page
    return target.exists() and (not heading or heading in headings(target))


def test_a_page_of_docs_is_named_by_the_readme_beside_it() -> None:
    unnamed = [
        str(page.relative_to(ROOT))
        for page in pages()
        if page.parent.name == "docs"
        and f"(docs/{page.name})" not in (page.parents[1] / "README.md").read_text()
    ]
    assert unnamed == []


def test_a_test_that_a_page_names_exists() -> None:
    named = [
        found
        for page in (ROOT / "tests/docs").glob("*.md")
        for found in re.findall(r"`([a-z0-9_/]+\.py)::(test_\w+)`", page.read_text())
    ]
    assert len(named) > 20
    missing = [
        f"{file}::{test}"
        for file, test in named
        if not re.search(
            rf"^(async )?def {test}\(", (ROOT / "tests" / file).read_text(), re.MULTILINE
        )
    ]
    assert missing == []


def test_the_page_of_helpers_names_every_module_of_qss_testing() -> None:
    page = (ROOT / "tests" / "docs" / "helpers.md").read_text()
    helpers = ROOT / "tests" / "qss_testing"
    unnamed = [
        name
        for path in modules()
        if path.is_relative_to(helpers) and path.name != "__init__.py"
        if (name := str(path.relative_to(helpers).with_suffix(""))) not in page
    ]
    assert unnamed == []


def decisions(directory: Path) -> list[str]:
    """The decisions of a directory, each with its number and all of its lines."""
    text = (directory / "docs" / "decisions.md").read_text()
    return re.split(r"\n(?=\d+\. )", text.rstrip())[1:]


def numbers(directory: Path) -> list[int]:
    return [int(decision.partition(".")[0]) for decision in decisions(directory)]


def directories_with_decisions() -> list[Path]:
    return [page.parents[1] for page in pages() if page.match("docs/decisions.md")]


def test_every_directory_has_a_readme_and_its_decisions_on_a_page() -> None:
    with_decisions = {str(path.relative_to(ROOT)) for path in directories_with_decisions()}
    with_readme = {
        str(page.parent.relative_to(ROOT)) for page in pages()[1:] if page.match("README.md")
    }
    assert with_decisions == with_readme
    assert with_readme >= {*CODE_DIRECTORIES, "crds", "charts/queryable-state"}
    assert [str(page) for page in pages() if "## Decisions" in prose(page)] == []


@pytest.mark.parametrize("directory", directories_with_decisions(), ids=str)
def test_decisions_are_numbered_dated_and_short(directory: Path) -> None:
    assert numbers(directory) == sorted(set(numbers(directory)))
    for decision in decisions(directory):
        lines = decision.splitlines()
        assert re.match(r"\d+\. \*\*2\d{3}-\d\d-\d\d, [^*]+\.\*\* ", decision), lines[0]
        assert DECISION_LINES_MIN <= len(lines) <= DECISION_LINES_MAX, lines[0]
        assert max(map(len, lines)) <= PROSE_COLUMNS_MAX, lines[0]


def test_a_decision_that_is_cited_exists() -> None:
    missing = [
        f"{path.relative_to(ROOT)}: {number} of {directory.relative_to(ROOT)}"
        for path in (*modules(), *pages(), *configuration())
        for directory, number in citations(path)
        if number not in numbers(directory)
    ]
    assert missing == []


def configuration() -> list[Path]:
    suffixes = {".yaml", ".json", ".tpl", ".txt", ".sh"}
    return [
        path
        for directory in (*CODE_DIRECTORIES, "crds", "charts")
        for path in sorted((ROOT / directory).rglob("*"))
        if path.suffix in suffixes
    ]


def citations(path: Path) -> Iterator[tuple[Path, int]]:
    """Cited decisions: "Decision 7" is of the page it links, else of the nearest directory.

    In the page of figures it is "(store-pod 7)"; on a page of decisions "(7)" is one of that page.
    """
    text = " ".join(path.read_text().split())
    for cited, file in re.findall(r"\[Decisions? ([^\]]+)\]\(([^)]+)\)", text):
        yield from ((Path(path.parent / file).resolve().parents[1], number) for number in of(cited))
    for cited in re.findall(r"(?<!\[)\bDecisions? (\d+(?:(?:, | and )\d+)*)", text):
        near = next(at for at in path.parents if (at / "docs" / "decisions.md").exists())
        yield from ((near, number) for number in of(cited))
    if path.name == "RESULTS.md":
        names = "|".join(CITED_AS)
        for name, cited in re.findall(rf"[(;,] ?({names}) (\d+)(?=[);])", text):
            yield ROOT / CITED_AS[name], int(cited)
    if path.match("docs/decisions.md"):
        yield from ((path.parents[1], int(cited)) for cited in re.findall(r"\((\d{1,3})\)", text))


def of(cited: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", cited)]
