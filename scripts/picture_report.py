"""Make docs/images/report.png: the beginning of the report that `make demo` writes.

python scripts/picture_report.py out/report.html docs/images/report.png

Also docs/images/explore.png, of the page that `segre explore -o explorer.html` writes.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright


def main(report: Path, picture: Path) -> None:
    """Open the report in Chromium, and take a picture of what is seen first."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=os.environ.get("SEGRE_CHROMIUM", "/usr/bin/chromium"),
            args=["--no-sandbox", "--disable-gpu"],
        )
        page = browser.new_page(viewport={"width": 1180, "height": 1000})
        page.goto(report.resolve().as_uri())
        page.wait_for_selector("html[data-drawn]", state="attached")
        page.screenshot(path=picture)
        browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
