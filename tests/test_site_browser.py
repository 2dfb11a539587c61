"""The documentation in a real browser: two widths, light and dark, by keyboard, offline."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from support.browser import Opened, opened, running
from support.site import built

# Nothing slides while it is measured.
STILL = """addEventListener("DOMContentLoaded", () => {
  const style = document.createElement("style");
  style.textContent = "* { transition: none !important; animation: none !important; }";
  document.head.append(style);
});"""
# An index to search that is read at once.
EMPTY = "var __index = {config: {lang: ['en'], separator: ' ', pipeline: []}, docs: []}"
DARK = "() => /^rgb.([0-9]{1,2}),/.test(getComputedStyle(document.body).backgroundColor)"
# What is cut: it sticks out of the window, and is not in a box that scrolls. Which boxes scroll,
# and which of these are silent: out of the keyboard's reach, or no shade says that there is more.
BOXES = """() => {
  const boxes = [...document.querySelectorAll("article .wide, article pre > code")];
  const scrolling = boxes.filter((one) => one.scrollWidth > one.clientWidth + 1);
  const style = (one) => getComputedStyle(one);
  const silent = scrolling.filter((one) => (one.matches(".wide") && one.tabIndex !== 0)
    || !/scroll/.test(style(one).backgroundAttachment));
  const scrolls = (one) => /auto|scroll/.test(style(one).overflowX);
  const within = (one) => one && (scrolls(one) || within(one.parentElement));
  const cut = [...document.querySelectorAll("article *")].filter((one) => {
    const box = one.getBoundingClientRect();
    return box.width && box.height && box.right > innerWidth + 1 && !within(one.parentElement);
  });
  const said = cut.slice(0, 3).map((one) => `${one.tagName}: ${one.textContent.slice(0, 60)}`);
  return { cut: said, scrolling: scrolling.length, silent: silent.length };
}"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory) / "site"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with running() as chromium:
        yield chromium


@pytest.fixture
def seen(browser: Browser, site: Path) -> Iterator[Opened]:
    with opened(browser, site / "index.html", script=STILL, drawn="article") as page:
        yield page
        page.check()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_is_cut_off(browser: Browser, site: Path, scheme: str) -> None:
    """On every page, at both widths: the window does not scroll sideways, and boxes say they do."""
    # The explorer has tests of its own; the page for what is not found needs a server.
    left_out = {site / "explorer" / "index.html", site / "404.html"}
    pages = sorted(set(site.rglob("*.html")) - left_out)
    assert len(pages) > 60
    pages = pages[::6] if scheme == "dark" else pages  # colours hardly move anything
    scrolling = 0
    with opened(browser, pages[0], script=STILL, drawn="article", color_scheme=scheme) as seen:
        seen.page.route("**/search_index.js", lambda route: route.fulfill(body=EMPTY))
        for path in pages:
            seen.page.goto(path.as_uri())
            for width in (390, 1280):
                place = f"{path.relative_to(site)}, {width} px"
                seen.page.set_viewport_size({"width": width, "height": 900})
                assert seen.scroll_width() <= width, place
                found = seen.js(BOXES)
                assert found["cut"] == [], place
                assert found["silent"] == 0, place
                scrolling += found["scrolling"]
            assert seen.js(DARK) == (scheme == "dark"), place
        seen.check()
    assert scrolling > len(pages) / 2


def test_the_front_page_leads_to_guides(seen: Opened) -> None:
    picture = seen.page.locator("article img").first
    expect(picture).to_be_in_viewport()
    assert picture.evaluate("(one) => one.naturalWidth") > 500
    assert picture.get_attribute("alt")
    cards = seen.page.locator(".card")
    assert cards.count() == 3
    tops = {round(card.bounding_box()["y"]) for card in cards.all()}
    assert len(tops) == 1
    for card in cards.all():
        assert "guides/" in card.locator("li a").first.get_attribute("href")


def test_a_walk_by_keyboard(seen: Opened) -> None:
    """From the first link past the navigation, and through it to a guide."""
    press = seen.page.keyboard.press
    press("Tab")
    focused = "document.activeElement.textContent.trim()"
    assert seen.js(focused) == "Skip to content"
    walked = []
    for _ in range(20):
        press("Tab")
        walked.append(seen.js(focused))
        if walked[-1] == "How-to guides":
            break
    assert "Start" in walked
    assert seen.js("getComputedStyle(document.activeElement).outlineStyle") != "none"
    press("Enter")
    seen.page.wait_for_url("**/guides/compare-in-ci.html")
    expect(seen.page.locator("h1")).to_contain_text("Compare checkpoints in CI")


def test_search_by_keyboard(seen: Opened) -> None:
    """The index is beside the pages: no server answers here."""
    seen.page.keyboard.press("/")
    expect(seen.page.get_by_role("textbox", name="Search")).to_be_focused()
    seen.page.keyboard.type("loss barrier")
    result = seen.page.locator("a", has_text="Merge two fine-tunes").locator("visible=true").first
    result.wait_for(timeout=60_000)
    for _ in range(12):
        seen.page.keyboard.press("ArrowDown")
        if "merg" in (seen.js("document.activeElement.href") or ""):
            break
    seen.page.keyboard.press("Enter")
    seen.page.wait_for_url("**/*merg*.html*")
