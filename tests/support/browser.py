"""A page opened in a real browser, with what it complained about and asked the network for."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, TimeoutError, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome")
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]
LOCAL = ("file:", "data:", "blob:", "about:")
DRAWN = "html[data-drawn]"
PATIENCE = 60.0  # seconds that a page may take to draw, on a busy machine
SLOW = 5  # times the grace, for a page that complained
GRACE = 0.5  # seconds that it has left once it has complained


def executable() -> str:
    """Where Chromium is on this machine."""
    named = os.environ.get("SEGRE_CHROMIUM")
    found = [named] if named else [shutil.which(name) for name in NAMES]
    path = next(filter(None, found), None)
    if path is None:
        pytest.fail("there is no Chromium: run make test, which installs Debian's chromium")
    return path


@contextmanager
def running() -> Iterator[Browser]:
    """Headless Chromium, stopped afterwards."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable(), args=ARGUMENTS)
        try:
            yield browser
        finally:
            browser.close()


@dataclass
class Opened:
    """A page in the browser, and what went wrong on it so far."""

    page: Page
    context: BrowserContext
    complaints: list[str] = field(default_factory=list)  # errors and warnings of the console
    foreign: list[str] = field(default_factory=list)  # what was asked of the network
    failed: list[str] = field(default_factory=list)

    def js(self, expression: str, argument: Any = None) -> Any:
        """What an expression of JavaScript is on the page."""
        return self.page.evaluate(expression, argument)

    def drawn(self, element: str = DRAWN, patience: float = PATIENCE) -> None:
        """Wait for an element; a page that complains and does not go on is broken, and so fails."""
        left = SLOW  # other plots may still be drawn, on a machine that is busy
        for _ in range(max(1, round(patience / GRACE))):
            complained = any(said.startswith("error") for said in self.complaints)
            try:
                self.page.wait_for_selector(element, state="attached", timeout=1000 * GRACE)
            except TimeoutError:
                left -= complained
                if not left:
                    break
            else:
                return
        pytest.fail(f"the page is not drawn; it said: {self.complaints or 'nothing'}")

    def check(self) -> None:
        """Nothing was complained about, and nothing asked of the network."""
        assert self.complaints == []
        assert self.foreign == []
        assert self.failed == []

    def scroll_width(self) -> int:
        """How wide the page is with what sticks out of it."""
        return int(self.js("document.scrollingElement.scrollWidth"))


@contextmanager
def opened(
    browser: Browser,
    path: Path | str,
    *,
    width: int = 1280,
    height: int = 900,
    script: str = "",
    anchor: str = "",
    drawn: str = DRAWN,
    patience: float = PATIENCE,
    **options: Any,
) -> Iterator[Opened]:
    """A file, or the address of a local server, opened in a new window; with scripts, when drawn.

    `drawn` is an element that is there by then, after at most `patience` seconds.

    Requests to that server are not foreign; all others are.
    """
    address = path if isinstance(path, str) else path.as_uri()
    local = (*LOCAL, path) if isinstance(path, str) else LOCAL
    context = browser.new_context(viewport={"width": width, "height": height}, **options)
    try:
        if script:
            context.add_init_script(script)
        page = context.new_page()
        seen = Opened(page, context)
        page.on("console", lambda message: _listen(seen, message.type, message.text))
        page.on("pageerror", lambda error: seen.complaints.append(f"error: {error}"))
        page.on("request", lambda request: _note(seen, request.url, local))
        page.on("requestfailed", lambda request: seen.failed.append(request.url[:200]))
        page.goto(address + anchor)
        if options.get("java_script_enabled", True):
            seen.drawn(drawn, patience)
        yield seen
    finally:
        context.close()


def _listen(seen: Opened, kind: str, text: str) -> None:
    if kind in ("error", "warning"):
        seen.complaints.append(f"{kind}: {text}")


def _note(seen: Opened, url: str, local: tuple[str, ...]) -> None:
    if not url.startswith(local):
        seen.foreign.append(url)
