"""Packages that may be installed beside the lock file."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_aiohttp_stays_below_its_next_minor_version() -> None:
    """The fast path uses private members of aiohttp, which a minor version may change."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = next(one for one in project["dependencies"] if one.startswith("aiohttp"))
    locked = re.search(
        r"^aiohttp==([0-9]+)\.([0-9]+)\.", (ROOT / "requirements.lock").read_text(), re.M
    )
    assert locked is not None
    assert re.fullmatch(rf"aiohttp~={locked[1]}\.{locked[2]}\.[0-9]+", wanted)
