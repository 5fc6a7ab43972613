"""Packages with extensions, as an installer leaves them: taken from the guides in the READMEs."""

import re
import tomllib
from pathlib import Path

README = Path(__file__).parents[2] / "store-pod" / "README.md"
_BLOCK = re.compile(
    r"^`(?P<name>\w+\.py)`:\n\n```python\n(?P<code>.*?)^```$", re.DOTALL | re.MULTILINE
)
_PROJECT = re.compile(r"^```toml\n(?P<text>\[project\]\n.*?)^```$", re.DOTALL | re.MULTILINE)


def modules_of_guide() -> dict[str, str]:
    """The example modules of the store pod's README, by file name."""
    return {found["name"]: found["code"] for found in _BLOCK.finditer(README.read_text())}


def entry_points_of_guide() -> dict[str, dict[str, str]]:
    """The entry points of the guide's projects: group -> name -> object."""
    groups: dict[str, dict[str, str]] = {}
    for found in _PROJECT.finditer(README.read_text()):
        for group, points in tomllib.loads(found["text"])["project"]["entry-points"].items():
            groups.setdefault(group, {}).update(points)
    return groups


def install(
    directory: Path, modules: dict[str, str], entry_points: dict[str, dict[str, str]]
) -> None:
    """Puts modules and their entry points where a PYTHONPATH finds them."""
    metadata = directory / "own_extensions-1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: own-extensions\nVersion: 1.0\n"
    )
    lines = []
    for group, points in entry_points.items():
        lines += [f"[{group}]", *(f"{name} = {target}" for name, target in points.items())]
    (metadata / "entry_points.txt").write_text("\n".join(lines) + "\n")
    for name, code in modules.items():
        (directory / name).write_text(code)
