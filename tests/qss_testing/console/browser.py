"""Starts Chromium without a window, and keeps what goes wrong in a page."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from playwright.sync_api import Browser, Page, expect, sync_playwright

_NAMES = ("chromium", "chromium-browser", "google-chrome")
WAIT_MS = 30_000


def launch_options() -> dict[str, Any]:
    """The options of Playwright for the Chromium of this machine; AssertionError without one."""
    path = next(filter(None, map(shutil.which, _NAMES)), None)
    assert path is not None, "no Chromium on the PATH: .ci/install-browser installs it"
    # Chromium's own sandbox refuses to run as root.
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    return {"executable_path": path, "args": arguments}


@dataclass(slots=True)
class Watched:
    """A page, and what went wrong in it."""

    page: Page
    errors: list[str] = field(default_factory=list)
    elsewhere: list[str] = field(default_factory=list)

    def check(self) -> None:
        """Raises AssertionError if a script failed, or something was asked of another origin."""
        assert self.errors == []
        assert self.elsewhere == []


@contextmanager
def chromium() -> Iterator[Browser]:
    """The browser, running inside the block."""
    expect.set_options(timeout=WAIT_MS)
    with sync_playwright() as driver:
        browser = driver.chromium.launch(**launch_options())
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def opened(browser: Browser, url: str, **options: Any) -> Iterator[Watched]:
    """A page of its own context at `url`; `options` are those of Playwright's contexts."""
    context = browser.new_context(**options)
    page = context.new_page()
    page.set_default_timeout(WAIT_MS)
    watched = Watched(page)
    origin = urlsplit(url).netloc

    def asked(target: str) -> None:
        if urlsplit(target).netloc not in (origin, ""):
            watched.elsewhere.append(target)

    page.on("pageerror", lambda error: watched.errors.append(str(error)))
    page.on("request", lambda request: asked(request.url))
    page.on("console", lambda said: _note(watched, said.type, said.text))
    try:
        page.goto(url)
        yield watched
    finally:
        context.close()


def _note(watched: Watched, kind: str, text: str) -> None:
    # A refusal of a pod is an answer, which the page says; Chromium logs it, too.
    if kind == "error" and not text.startswith("Failed to load resource"):
        watched.errors.append(text)
