"""The static page, written once for all tests that open it."""

from pathlib import Path

import pytest

from segre.explore.page import static_page
from support.once import once


@pytest.fixture(scope="session")
def static_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page that `segre explore -o` writes, with links to proofs."""

    def make(folder: Path) -> None:
        page = static_page(theorems="theorems.html")
        (folder / "explorer.html").write_text(page, encoding="utf-8")

    return once(tmp_path_factory, "explorer", make) / "explorer.html"
