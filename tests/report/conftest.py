"""One browser, and one file of each kind, for all tests of a module."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from segre.report.page.render import write_page
from support.browser import Opened, opened, running
from support.sample_pages import everything, plain


@pytest.fixture(scope="module")  # not longer: while it runs, nobody else may start an event loop
def browser() -> Iterator[Browser]:
    with running() as chromium:
        yield chromium


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "report.html"
    write_page(everything(), path)
    return path


@pytest.fixture(scope="module")
def plain_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "plain.html"
    write_page(plain(), path)
    return path


@pytest.fixture
def light(browser: Browser, plain_file: Path) -> Iterator[Opened]:
    """The page without its plots, which is there at once."""
    with opened(browser, plain_file, permissions=["clipboard-read", "clipboard-write"]) as page:
        yield page
        page.check()


@pytest.fixture
def seen(browser: Browser, file: Path) -> Iterator[Opened]:
    with opened(browser, file, permissions=["clipboard-read", "clipboard-write"]) as page:
        yield page
        page.check()
