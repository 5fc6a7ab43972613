"""`Store` and `AsyncStore` are one program in two shells: a change of one is a change of both."""

import ast
import re
from pathlib import Path

import pytest

import qss_client

PACKAGE = Path(qss_client.__file__).parent
RENAMED = {
    "AsyncIterator": "Iterator",
    "AsyncRetrier": "Retrier",
    "AsyncHttp": "SyncHttp",
    "AsyncFound": "Found",
    "AsyncScanned": "Scanned",
    "AsyncSession": "Session",
    "AsyncStore": "Store",
    "async_http": "sync_http",
    "__aenter__": "__enter__",
    "__aexit__": "__exit__",
    "with an event loop": "without an event loop",
}


def program(text: str) -> str:
    """The code without its imports, whose order follows from their names."""
    tree = ast.parse(text)
    tree.body = [node for node in tree.body if not isinstance(node, ast.ImportFrom)]
    return ast.unparse(tree)


@pytest.mark.parametrize(
    ("with_a_loop", "without"),
    [("async_store.py", "store.py"), ("reads/async_session.py", "reads/sync_session.py")],
)
def test_the_async_program_is_the_sync_one_with_awaits(with_a_loop: str, without: str) -> None:
    text = (PACKAGE / with_a_loop).read_text()
    for old, new in RENAMED.items():
        text = text.replace(old, new)
    text = re.sub(r"\b(async|await) ", "", text)
    # Only a coroutine cannot `yield from`.
    text = text.replace("for row in page.rows:\n                yield row", "yield from page.rows")
    sync = (PACKAGE / without).read_text()
    assert program(text) == program(sync)
