"""Make docs/images/report.png, explore.png and card.png: what segre's pages look like.

python scripts/picture_report.py

The report that `make demo` writes and the page of `segre explore -o`, as far as they are seen at
first, and the card of a dimension on a light and on a dark page.
"""

from __future__ import annotations

import os
import subprocess
import sys
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

from PIL import Image
from playwright.sync_api import Browser, sync_playwright

import segre

ROOT = Path(__file__).parents[1]
IMAGES = ROOT / "docs" / "images"
CARD = "softmax/d=10,10,10/a=2/t=3"
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")


def page_seen(browser: Browser, page: Path, picture: Path) -> None:
    """What is seen first of a page with scripts."""
    seen = browser.new_page(viewport={"width": 1180, "height": 1000})
    seen.goto(page.resolve().as_uri())
    seen.wait_for_selector("html[data-drawn]", state="attached")
    seen.screenshot(path=picture)
    seen.close()


def card_seen(browser: Browser, card: str, picture: Path) -> None:
    """A card in both colour schemes, one above the other."""
    seen = []
    for scheme in SCHEMES:
        page = browser.new_page(viewport={"width": 860, "height": 100}, color_scheme=scheme)
        colours = "background: light-dark(#fff, #14171a); color: light-dark(#1b1b1f, #e8e8e8)"
        style = f"{colours}; color-scheme: light dark; margin: 18px"
        page.set_content(f'<!doctype html><body style="{style}">{card}</body>')
        seen.append(Image.open(BytesIO(page.screenshot(full_page=True))))
        page.close()
    whole = Image.new("RGB", (seen[0].width, sum(one.height for one in seen)))
    for number, one in enumerate(seen):
        whole.paste(one, (0, number * seen[0].height))
    whole.save(picture, optimize=True)


def main() -> None:
    """All three."""
    with TemporaryDirectory() as folder, sync_playwright() as playwright:
        report, explorer = Path(folder) / "report.html", Path(folder) / "explorer.html"
        for command in (("analyze", "examples/tiny-llama"), ("explore",)):
            page = explorer if command == ("explore",) else report
            subprocess.run(
                [sys.executable, "-m", "segre", *command, "-o", page], check=True, cwd=ROOT
            )
        browser = playwright.chromium.launch(
            executable_path=os.environ.get("SEGRE_CHROMIUM", "/usr/bin/chromium"),
            args=["--no-sandbox", "--disable-gpu"],
        )
        page_seen(browser, report, IMAGES / "report.png")
        page_seen(browser, explorer, IMAGES / "explore.png")
        card_seen(
            browser, segre.dimension(CARD, symmetries=True)._repr_html_(), IMAGES / "card.png"
        )
        browser.close()


if __name__ == "__main__":
    main()
