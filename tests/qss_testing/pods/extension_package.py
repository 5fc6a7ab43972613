"""Installs packages with extensions, taken from the store pod's guides."""

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from qss_operator.resources.validation import validate_resource

_PAGES = Path(__file__).parents[3] / "store-pod" / "docs"
_GUIDES = "".join((_PAGES / name).read_text() for name in ("query-types.md", "store-types.md"))
_BLOCK = re.compile(
    r"^`(?P<name>\w+\.py)`:\n\n```python\n(?P<code>.*?)^```$", re.DOTALL | re.MULTILINE
)
_CUSTOM = re.compile(r"^```yaml\n(?P<text>apiVersion: [^`]*?type: Custom[^`]*?)^```$", re.MULTILINE)
_PROJECT = re.compile(r"^```toml\n(?P<text>\[project\]\n.*?)^```$", re.DOTALL | re.MULTILINE)


def modules_of_guide() -> dict[str, str]:
    """The example modules of the guides, by file name."""
    return {found["name"]: found["code"] for found in _BLOCK.finditer(_GUIDES)}


def entry_points_of_guide() -> dict[str, dict[str, str]]:
    """The entry points of the guide's projects: group -> name -> object."""
    groups: dict[str, dict[str, str]] = {}
    for found in _PROJECT.finditer(_GUIDES):
        for group, points in tomllib.loads(found["text"])["project"]["entry-points"].items():
            groups.setdefault(group, {}).update(points)
    return groups


def resource_of_guide() -> dict[str, Any]:
    """The guides' store of a custom type, with its defaults."""
    found = _CUSTOM.search(_GUIDES)
    assert found is not None
    return validate_resource(yaml.safe_load(found["text"]))


def install_guide(site: Path, changes: Mapping[str, str] | None = None) -> None:
    """Installs the guides' packages; `changes` replaces texts in the store type's module."""
    modules = modules_of_guide()
    for old, new in (changes or {}).items():
        assert modules["by_member.py"].count(old) == 1
        modules["by_member.py"] = modules["by_member.py"].replace(old, new)
    if site.exists():
        (site / "by_member.py").write_text(modules["by_member.py"])
    else:
        install(site, modules, entry_points_of_guide())


def install(
    directory: Path, modules: dict[str, str], entry_points: dict[str, dict[str, str]]
) -> None:
    """Writes modules and their entry points into a directory for PYTHONPATH."""
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
