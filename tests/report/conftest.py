"""One browser for all tests of a module."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from report.browser import running


@pytest.fixture(scope="module")  # not longer: while it runs, nobody else may start an event loop
def browser() -> Iterator[Browser]:
    with running() as chromium:
        yield chromium
