"""The commands of a page and what the page says that they print."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
_BLOCK = re.compile(r"^```console\n(.*?)^```$", re.DOTALL | re.MULTILINE)
# What differs from run to run, and what stands for it in a comparison.
_CHANGING = (
    (re.compile(r"http://127\.0\.0\.1:\d+"), "URL"),
    (re.compile(r"\d+ s silent"), "N s silent"),
    (re.compile(r"^bytes: .*$", re.MULTILINE), "bytes: N"),
    (re.compile(r"20[2-9]\d-\d\d-\d\dT[\d:.]+Z"), "NOW"),
)


def outputs_of_page(path: str) -> dict[str, str]:
    """The output by command of a page's console blocks; `path` is that in the repository."""
    found: dict[str, str] = {}
    for block in _BLOCK.findall((ROOT / path).read_text()):
        for part in block.split("$ ")[1:]:
            command, _, output = part.partition("\n")
            found[command] = output
    return found


def words_of(output: str) -> list[str]:
    """The words of an output, without what differs from run to run and without its spacing."""
    for pattern, word in _CHANGING:
        output = pattern.sub(word, output)
    return output.split()
